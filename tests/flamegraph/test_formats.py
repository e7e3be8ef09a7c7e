"""The formats beside the page."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from workshop import flamegraph
from workshop.errors import WorkshopError
from workshop.flamegraph.tree import Kind, build
from workshop.profiles import stacks

SVG = "{http://www.w3.org/2000/svg}"
RECORDING = stacks.parse(
    [
        'process 7:"python train.py";thread (7): MainThread;main (train.py:5);f<T> (a&b.py:3) 60\n',
        'process 7:"python train.py";thread (7): MainThread;main (train.py:6) 30\n',
        'process 7:"python train.py";thread (9);run (threading.py:3);f<T> (a&b.py:3) 10\n',
    ],
    "profile.raw",
)


def test_the_picture_is_as_wide_as_the_samples() -> None:
    text = flamegraph.draw(Path("graph.svg"), RECORDING)
    root = ElementTree.fromstring(text)
    frames = {group.findtext(f"{SVG}title"): group.find(f"{SVG}rect") for group in root.iter(f"{SVG}g")}
    widths = {title: float(box.get("width", 0)) for title, box in frames.items() if title and box is not None}
    assert widths["all: 100 samples, 100.00%"] == 1200
    assert widths["main (train.py:5): 60 samples, 60.00%"] == pytest.approx(720)
    assert widths["thread 9: 10 samples, 10.00%"] == pytest.approx(120)
    assert len(widths) == 9
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_speedscope_gets_every_sample() -> None:
    found = json.loads(flamegraph.draw(Path("graph.speedscope.json"), RECORDING))
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = found["shared"]["frames"]
    assert {"name": "main", "file": "train.py", "line": 5} in frames
    assert [profile["name"] for profile in found["profiles"]] == [
        'process 7:"python train.py", thread (7): MainThread',
        'process 7:"python train.py", thread (9)',
    ]
    for profile in found["profiles"]:
        assert (profile["type"], profile["unit"]) == ("sampled", "none")
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"] - profile["startValue"]
        assert all(0 <= index < len(frames) for sample in profile["samples"] for index in sample)
    assert sum(profile["endValue"] for profile in found["profiles"]) == RECORDING.samples


@pytest.mark.parametrize(("name", "before"), [("graph.png", None), ("graph", None), ("graph.json", RECORDING)])
def test_other_formats_are_refused(name: str, before: stacks.Recording | None) -> None:
    with pytest.raises(WorkshopError, match=r"its name must end in \.html"):
        flamegraph.draw(Path(name), RECORDING, before)


def test_a_comparison_puts_lines_and_processes_together() -> None:
    before = stacks.parse(['process 3:"python old.py";main (train.py:2);g (b.py:3) 7\n'])
    [process] = build(RECORDING, before).sorted_children()
    assert (process.label.text, process.label.kind, process.samples, process.before) == (
        "process",
        Kind.PROCESS,
        100,
        7,
    )
    assert [(node.label.text, node.samples, node.before) for node in process.sorted_children()] == [
        ("main (train.py)", 90, 7),
        ("run (threading.py)", 10, 0),
    ]
