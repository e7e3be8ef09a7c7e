"""Flame graphs in all formats; the page is tested in a real browser: Chromium, without a window."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browsers import visited
from playwright.sync_api import Browser, Page

from workshop.errors import WorkshopError
from workshop.pages import flame_page
from workshop.pages.flame_tree import Kind, build
from workshop.profiles import stacks

RECORDED = """\
process 7:"python train.py";<module> (train.py:9);main (train.py:5);Module._call_impl (torch/nn/modules/module.py:1);conv2d (torch/nn/functional.py:3) 60
process 7:"python train.py";<module> (train.py:9);main (train.py:6);backward (torch/_tensor.py:3);at::native::f(int) (libtorch_cpu.so) 30
process 7:"python train.py";process 8:"";_worker_loop (torch/utils/data/_utils/worker.py:3);Pets.__getitem__ (train.py:2);</script> (<string>:1) 10
"""  # noqa: E501

WITH_IDLE = (
    RECORDED
    + """\
process 7:"python train.py";_bootstrap (threading.py:1);run (tqdm/_monitor.py:60);wait (threading.py:3) 95
process 7:"python train.py";_bootstrap (threading.py:1);run (tqdm/_monitor.py:61);refresh (tqdm/std.py:3) 5
process 7:"python train.py";_bootstrap (threading.py:1);run (threading.py:2);compute (train.py:30) 20
process 7:"python train.py";<module> (train.py:1);_find_and_load (<frozen x>:1);load (<frozen x>:2);t (torch.py:5) 80
"""
)

Open = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Draw some stacks, perhaps beside others, and open the page."""
    with ExitStack() as stack:

        def visit_page(text: str, before: str = "") -> Page:
            stack.close()
            path = tmp_path / "flamegraph.html"
            compared = stacks.parse(before.splitlines()) if before else None
            path.write_text(flame_page.draw(path, stacks.parse(text.splitlines()), compared, "train.py"))
            return stack.enter_context(visited(browser, path))

        yield visit_page


def frame(page: Page, name: str):  # type: ignore[no-untyped-def]
    return page.locator(f".frame[aria-label^='{name}']")


def wide(page: Page, name: str) -> float:
    return float(frame(page, name).bounding_box()["width"])


def test_frames_are_as_wide_as_their_samples(visit: Open) -> None:
    page = visit(RECORDED)
    assert page.locator(".frame").count() == 13
    whole = wide(page, "all")
    assert whole > 1200
    for name, share in [("7 python", 0.9), ("8 DataLoader worker", 0.1), ("conv2d", 0.6), ("main (train.py:6)", 0.3)]:
        assert wide(page, name) == pytest.approx(share * whole, abs=1), name
    boxes = [frame(page, name).bounding_box() for name in ("main (train.py:5)", "main (train.py:6)")]
    assert boxes[0]["x"] + boxes[0]["width"] == pytest.approx(boxes[1]["x"], abs=1)
    assert boxes[0]["y"] == boxes[1]["y"] > frame(page, "<module>").bounding_box()["y"]


def test_colours_tell_whose_code_it_is(visit: Open) -> None:
    page = visit(RECORDED)
    for name, kind in [
        ("main (train.py:5)", "user"),
        ("Pets.__getitem__", "user"),
        ("conv2d", "library"),
        ("at::native", "native"),
        ("_worker_loop", "worker"),
        ("8 DataLoader", "worker"),
        ("7 python", "process"),
    ]:
        assert kind in frame(page, name).get_attribute("class").split(), name
    legend = page.inner_text("#legend")
    assert all(words in legend for words in ("your code", "libraries", "native code", "DataLoader workers"))
    colours = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colours[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colours["light"] != colours["dark"]


def test_a_click_zooms_and_escape_returns(visit: Open) -> None:
    page = visit(RECORDED)
    whole, before = wide(page, "all"), wide(page, "backward")
    frame(page, "main (train.py:6)").click()
    assert wide(page, "backward") == pytest.approx(whole, abs=1) != before
    assert frame(page, "conv2d").count() == 0
    assert "above" in frame(page, "<module>").get_attribute("class").split()
    assert "30 samples, 30.00 % of all, 100.00 % of what is zoomed into; 0 in itself" in page.inner_text("#details")
    page.keyboard.press("Escape")
    assert wide(page, "backward") == pytest.approx(before, abs=1)
    frame(page, "main (train.py:6)").click()
    page.click("#reset")
    assert wide(page, "backward") == pytest.approx(before, abs=1)


def test_a_search_marks_and_counts(visit: Open) -> None:
    page = visit(RECORDED)
    page.keyboard.press("/")
    page.keyboard.type("TRAIN.PY:")
    hits = page.locator(".frame.hit")
    names = hits.evaluate_all("frames => frames.map(each => each.textContent.slice(0, 8))")
    assert sorted(names) == ["<module>", "Pets.__g", "main (tr", "main (tr"]
    assert page.inner_text("#matched") == "100.00 % of all samples, in 4 places", "a hit inside a hit counts once"
    page.fill("#search", "conv2d")
    assert page.inner_text("#matched") == "60.00 % of all samples, in 1 place"
    page.keyboard.press("Escape")
    assert hits.count() == 0
    assert page.inner_text("#matched") == ""


def test_the_mouse_and_the_keys_tell_of_a_frame(visit: Open) -> None:
    page = visit(RECORDED)
    frame(page, "conv2d").hover()
    assert page.inner_text("#details b") == "conv2d (torch/nn/functional.py:3)"
    assert "60 samples, 60.00 % of all; 60 in itself" in page.inner_text("#details span")
    frame(page, "<module>").focus()
    for key, name in [
        ("ArrowDown", "main (train.py:5)"),
        ("ArrowRight", "main (train.py:6)"),
        ("ArrowDown", "backward"),
        ("ArrowUp", "main (train.py:6)"),
        ("ArrowLeft", "main (train.py:5)"),
    ]:
        page.keyboard.press(key)
        assert page.inner_text("#details b").startswith(name), key
    page.keyboard.press("Enter")
    assert wide(page, "conv2d") == pytest.approx(wide(page, "all"), abs=1)


def test_waiting_threads_and_imports_are_folded_until_a_click(visit: Open) -> None:
    page = visit(WITH_IDLE)
    says = page.locator("#folding").inner_text().strip()
    assert says == "fold threads that only wait (33.33 % of all samples) and imports (26.67 %, up to 2 frames high)"
    assert wide(page, "compute") == pytest.approx(0.1 * wide(page, "all"), abs=1), "a thread that works is there"
    assert wide(page, "_find_and_load") == pytest.approx(0.4 * wide(page, "all"), abs=1)
    for name in ("threads that only wait", "run (tqdm", "load ("):
        assert frame(page, name).count() == 0, name
    page.locator("#search").fill("_bootstrap")
    assert page.locator("#matched").inner_text() == "10.00 % of all samples, in 1 place", "what is folded is not found"
    page.locator("#fold").uncheck()
    assert wide(page, "threads that only wait") == pytest.approx(wide(page, "all") / 3, abs=1)
    assert frame(page, "load (").count() == 1
    assert visit(RECORDED).locator("#folding").is_hidden()


def test_a_picture_leaves_out_what_waits() -> None:
    drawn = flame_page.draw(Path("a.svg"), stacks.parse(WITH_IDLE.splitlines()))
    titles = [title.text or "" for title in ElementTree.fromstring(drawn).iter() if title.tag.endswith("title")]
    assert titles[0].endswith(", without 100 samples of threads that only wait")
    assert "all: 200 samples, 100.00%" in titles
    assert not any("tqdm" in title or title.startswith("load") for title in titles)


def test_a_comparison_shows_what_came_and_what_went(visit: Open) -> None:
    before = "main (train.py:1);slow (train.py:2) 90\nmain (train.py:1);same (train.py:5) 10\n"
    after = before.replace("90", "20") + "main (train.py:1);new (a.py:1) 30\n"
    page = visit(after, before)
    whole = wide(page, "all")
    assert wide(page, "slow") == pytest.approx(whole / 3, abs=1)
    colours = {name: frame(page, name).evaluate("each => each.style.background") for name in ("slow", "same", "new")}
    assert "--less" in colours["slow"]
    assert "--same" in colours["same"]
    assert "--more" in colours["new"]
    frame(page, "slow").hover()
    assert "90 samples before, 20 after: -70" in page.inner_text("#details")
    page.check("[value=before]")
    assert wide(page, "slow") == pytest.approx(0.9 * whole, abs=1)
    assert frame(page, "new").count() == 0


@pytest.mark.slow
def test_a_hundred_thousand_stacks_are_drawn_and_zoomed(visit: Open) -> None:
    """All of them are distinct; `benchmarks/flamegraph.py` measures how long it takes."""
    names = [f"f{number}" for number in range(50)]
    lines = [
        f"main (train.py:1);{names[a]} (a.py:{a});{names[b]} (b.py:{b});{names[c]} (c.py:{c}) {1 + (a * b * c) % 3}\n"
        for a, b, c in product(range(50), range(50), range(40))
    ]
    page = visit("".join(lines))
    assert page.evaluate("count") == 1 + 1 + 50 + 50 * 50 + 100_000
    assert 50 < page.locator(".frame").count() < 20_000, "what is thinner than a pixel is not drawn"
    frame(page, "f7 (a.py:7)").click()
    assert wide(page, "f7 (a.py:7)") == pytest.approx(wide(page, "all"), abs=1)
    page.fill("#search", "b.py:3")
    assert page.locator(".frame.hit").count() > 0


SVG = "{http://www.w3.org/2000/svg}"
RECORDING = stacks.parse(
    [
        'process 7:"python train.py";thread (7): MainThread;main (train.py:5);f<T> (a&b.py:3) 60\n',
        'process 7:"python train.py";thread (7): MainThread;main (train.py:6) 30\n',
        'process 7:"python train.py";thread (9);run (threading.py:3);f<T> (a&b.py:3) 10\n',
    ],
    "profile.raw",
)


def boxes(text: str) -> dict[str, ElementTree.Element]:
    """The boxes of an SVG, by what they say."""
    groups = ElementTree.fromstring(text).iter(f"{SVG}g")
    return {group.findtext(f"{SVG}title", ""): group.find(f"{SVG}rect") for group in groups}


def test_the_picture_is_as_wide_as_the_samples() -> None:
    text = flame_page.draw(Path("graph.svg"), RECORDING)
    widths = {title: float(box.get("width")) for title, box in boxes(text).items()}
    assert widths["all: 100 samples, 100.00%"] == 1200
    assert widths["main (train.py:5): 60 samples, 60.00%"] == pytest.approx(720)
    assert widths["thread 9: 10 samples, 10.00%"] == pytest.approx(120)
    assert len(widths) == 9
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_speedscope_gets_every_sample() -> None:
    found = json.loads(flame_page.draw(Path("graph.speedscope.json"), RECORDING))
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
        flame_page.draw(Path(name), RECORDING, before)


def test_a_comparison_puts_lines_and_processes_together() -> None:
    before = stacks.parse(['process 3:"python old.py";main (train.py:2);g (b.py:3) 7\n'])
    [process] = build(RECORDING, before).sorted_children()
    main, run = process.sorted_children()
    assert (process.label.kind, process.samples, process.before) == (Kind.PROCESS, 100, 7)
    assert (main.label.text, main.samples, main.before) == ("main (train.py)", 90, 7)
    assert (run.label.text, run.samples, run.before) == ("run (threading.py)", 10, 0)


def test_a_picture_of_a_comparison_shows_what_came() -> None:
    found = boxes(flame_page.draw(Path("graph.svg"), RECORDING, stacks.parse(["main (train.py:5) 50\n"])))
    assert found["all: 100 samples, 100.00%; 50 before"].get("class") == "more"
