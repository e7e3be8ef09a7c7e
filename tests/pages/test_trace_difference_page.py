"""The page of `workshop trace --diff --html` in a real browser: Chromium, without a window."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsers import visited
from conftest import Run
from made_traces import a_step, launched, write
from playwright.sync_api import Browser, Page

from workshop.pages.trace_page import difference_page
from workshop.traces import load
from workshop.traces.comparison.difference import compare

LONG = "</script><b>odd" + "_and_so_on" * 20


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two runs, in which a step waits 200 µs less for the same kernels."""
    folder = tmp_path_factory.mktemp("runs")
    for name, start, length in (("before", 7_000, 300), ("after", 90_000, 100)):
        events = [launched(LONG, (start - 500, 1), (start - 400, 5))]
        for step in range(5):
            begin = start + length * step
            events += [a_step(step, begin, work=length), launched(LONG, (begin + 30, 1), (begin + 40, 20))]
        (folder / name).mkdir()
        write(folder / name / "rank0.json", {"traceEvents": [event for each in events for event in each]})
    before, after = (load([folder / name]) for name in ("before", "after"))
    (folder / "page.html").write_text(draw(before, after, compare(before, after)))
    return folder / "page.html"


@pytest.fixture
def page(browser: Browser, drawn: Path) -> Iterator[Page]:
    with visited(browser, drawn) as page:
        yield page


def test_sentences_come_first_and_the_timeline_last(page: Page) -> None:
    assert page.inner_text("h1") == "before → after: what changed"
    first, *_, last = page.locator("h2").all_inner_texts()
    assert (first, last) == ("What changed", "Timeline")
    assert page.locator("#findings li").first.inner_text().startswith("A step takes 0.100 ms instead of 0.300 ms")
    assert page.locator("table").count() == 5
    bars = "[...document.querySelectorAll('.bar div')].map((bar) => [...bar.children].map((part) => part.offsetWidth))"
    before, after = map(sum, page.evaluate(bars))
    assert before == pytest.approx(3 * after, rel=0.05), "the bars have one scale"


def test_both_timelines_begin_with_their_first_compared_step(page: Page) -> None:
    rows = page.evaluate("data.rows.map((row) => [row.label, row.start[0], row.names])")
    path = "critical path, step 2"
    assert [label for label, _, _ in rows] == [
        f"{side}, rank 0: {row}"
        for side in ("before", "after")
        for row in (path, "steps", "the thread that trains", "communication", "device 0, stream 7")
    ]
    assert {start for label, start, _ in rows if label.endswith("steps")} == {0}
    assert {start for label, start, _ in rows if "stream" in label} == {40}, "what ran before is left out"
    assert page.evaluate("end - begin") == 4 * 300, "the first of five steps is not compared"


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_the_screen(width: int, page: Page) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_the_command_draws_the_same(workshop: Run, drawn: Path, tmp_path: Path) -> None:
    done = workshop("trace", "--diff", drawn.with_name("before"), drawn.with_name("after"), "--html", "page.html")
    assert "page.html shows what changed" in done.stdout
    assert (tmp_path / "page.html").read_text() == drawn.read_text()
