"""The pages of `workshop trace --html`, also with `--diff`, in a real browser: Chromium, without a window."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsers import visited
from conftest import Run
from made_traces import a_step, launched, made_up, write
from playwright.sync_api import Browser, Page

from workshop.cli.trace_text import with_lessons
from workshop.pages.lanes import lanes
from workshop.pages.trace_page import difference_page, timeline
from workshop.pages.trace_page import page as draw
from workshop.traces.comparison import compare
from workshop.traces.tables import TABLES, tables, text_table
from workshop.traces.trace_files import load
from workshop.traces.trace_findings import findings

INK = """() => {
  const canvas = document.getElementById("timeline");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.filter((value, at) => at % 4 === 3 && value > 0).length;
}"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two ranks."""
    folder = tmp_path_factory.mktemp("traces")
    for rank in range(2):
        trace = made_up(rank + 4) | {"distributedInfo": {"rank": rank}}
        trace["traceEvents"][0]["name"] = "</script><b>odd"
        write(folder / f"rank{rank}.json", trace)
    traces = load([folder])
    (folder / "page.html").write_text(draw(traces, tables(traces), with_lessons(findings(traces))))
    return folder / "page.html"


@pytest.fixture
def page(browser: Browser, drawn: Path) -> Iterator[Page]:
    with visited(browser, drawn) as page:
        yield page


def test_what_costs_time_stands_above_the_charts(page: Page) -> None:
    assert page.locator("#findings li").count() > 0
    assert page.locator(".bar").count() >= 2
    first, _, _, timeline, *_ = page.locator("h2").all_inner_texts()
    assert (first, timeline) == ("What it costs, of the whole time", "Timeline")


def test_it_has_the_tables_that_the_terminal_has(page: Page, drawn: Path) -> None:
    traces = load([drawn.parent])
    found = {name: text_table(name, rows, several=True) for name, rows in tables(traces).items() if rows}
    headings = page.locator("section:has(table) > h2").all_inner_texts()
    assert headings == [table.title for table in found.values() if table]
    assert {TABLES[name].title for name in ("temporal", "idle", "kernels", "operators", "path", "held")} <= {*headings}
    kernels = page.locator("section", has=page.get_by_role("heading", name=TABLES["kernels"].title, exact=True))
    assert found["kernels"]
    assert kernels.locator("td").all_inner_texts() == [cell for row in found["kernels"].rows for cell in row]


def test_the_timeline_is_drawn_zoomed_and_moved(page: Page) -> None:
    assert page.evaluate(INK) > 1000
    rows = page.evaluate("data.rows.map((row) => row.label)")
    assert {"rank 0: the thread that trains", "rank 1: the thread that trains"} <= set(rows)
    assert any("stream" in row for row in rows)
    path = page.evaluate("data.rows.find((row) => row.label.startsWith('rank 0: critical path, '))")
    ends = [start + duration for start, duration in zip(path["start"], path["duration"], strict=True)]
    assert path["start"][1:] == pytest.approx(ends[:-1]), "each piece begins where the one before ends"
    whole = page.evaluate("end - begin")
    page.keyboard.press("+")
    assert page.evaluate("end - begin") == pytest.approx(0.6 * whole)
    left = page.evaluate("begin")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("begin") > left
    page.locator("#timeline").hover()
    page.mouse.wheel(0, -200)
    page.wait_for_function(f"end - begin < {0.6 * whole - 0.01}")
    page.keyboard.press("Escape")
    assert page.evaluate("end - begin") == whole


def test_an_event_says_what_it_is(page: Page) -> None:
    x, y = page.evaluate("[x(data.rows[1].start[0] + data.rows[1].duration[0] / 2), data.rows[1].top + 5]")
    page.locator("#timeline").hover(position={"x": max(x, 1), "y": y})
    said = page.inner_text("#details")
    assert page.evaluate("data.rows[1].label") in said
    assert "µs" in said


def test_the_command_draws_the_same(workshop: Run, drawn: Path, tmp_path: Path) -> None:
    traces = [drawn.with_name(f"rank{rank}.json") for rank in range(2)]
    done = workshop("trace", *traces, "--html", "page.html")
    assert "page.html shows 2 traces" in done.stdout
    assert (tmp_path / "page.html").read_text() == drawn.read_text()


def test_long_traces_keep_what_is_longest(tmp_path: Path) -> None:
    traces = load([write(tmp_path / "t.json", made_up(4))])
    rows = [(row, 0) for rank, trace in traces.items() for row in lanes(rank, trace)]
    whole, short = timeline(rows), timeline(rows, most=20)
    sizes = (sorted(each for row in found["rows"] for each in row["duration"]) for found in (whole, short))
    everything, longest = sizes
    assert longest == everything[-20:]
    assert short["leftOut"] == len(everything) - 20


LONG = "</script><b>odd" + "_and_so_on" * 20


@pytest.fixture(scope="module")
def drawn_difference(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    (folder / "page.html").write_text(difference_page(before, after, compare(before, after)))
    return folder / "page.html"


@pytest.fixture
def difference(browser: Browser, drawn_difference: Path) -> Iterator[Page]:
    with visited(browser, drawn_difference) as page:
        yield page


def test_sentences_come_first_and_the_timeline_last(difference: Page) -> None:
    assert difference.inner_text("h1") == "before → after: what changed"
    first, *_, last = difference.locator("h2").all_inner_texts()
    assert (first, last) == ("What changed", "Timeline")
    assert difference.locator("#findings li").first.inner_text().startswith("A step takes 0.100 ms instead of 0.300 ms")
    assert difference.locator("table").count() == 5
    bars = "[...document.querySelectorAll('.bar div')].map((bar) => [...bar.children].map((part) => part.offsetWidth))"
    before, after = map(sum, difference.evaluate(bars))
    assert before == pytest.approx(3 * after, rel=0.05), "the bars have one scale"


def test_both_timelines_begin_with_their_first_compared_step(difference: Page) -> None:
    rows = difference.evaluate("data.rows.map((row) => [row.label, row.start[0], row.names])")
    path = "critical path, step 2"
    assert [label for label, _, _ in rows] == [
        f"{side}, rank 0: {row}"
        for side in ("before", "after")
        for row in (path, "steps", "the thread that trains", "communication", "device 0, stream 7")
    ]
    assert {start for label, start, _ in rows if label.endswith("steps")} == {0}
    assert {start for label, start, _ in rows if "stream" in label} == {40}, "what ran before is left out"
    assert difference.evaluate("end - begin") == 4 * 300, "the first of five steps is not compared"


@pytest.mark.parametrize("width", [1280, 390])
def test_both_pages_fit_the_screen(width: int, browser: Browser, drawn: Path, drawn_difference: Path) -> None:
    for path in (drawn, drawn_difference):
        with visited(browser, path) as page:
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width


def test_the_command_draws_the_same_difference(workshop: Run, drawn_difference: Path, tmp_path: Path) -> None:
    before, after = (drawn_difference.with_name(side) for side in ("before", "after"))
    done = workshop("trace", "--diff", before, after, "--html", "page.html")
    assert "page.html shows what changed" in done.stdout
    assert (tmp_path / "page.html").read_text() == drawn_difference.read_text()
