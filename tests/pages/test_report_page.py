"""The page of `workshop report` in a real browser: Chromium, without a window."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from browsers import visited
from kept_example import EVERY_OUTCOME, KEPT, LINES, RACED, SPEED
from playwright.sync_api import Browser

from workshop.course import course_report, kept_checks
from workshop.course.kept_lines import KeptFunction, KeptLine
from workshop.course.state import State
from workshop.judge.verdict import Outcome
from workshop.pages import report_page
from workshop.pages.template import fill
from workshop.parts import all_parts

LONGER = (KeptFunction("main", 11.0, (KeptLine(7, 30, 10.5, 0.95, "for batch in loader:"),)),)
EDITED = replace(
    LINES, fingerprint="two", at="2030-05-05T10:00:00+02:00", profile="after & more.lprof", functions=LONGER
)
ANSWER = replace(
    RACED, part="part2", speed=None, unraced="no race <here>", reasons=("line 7 <takes> it",), lines=LINES, load=None
)
CHECKS = [
    ANSWER,
    replace(RACED, speed=replace(SPEED, ratio=4.0, low=2.0, high=5.0)),
    replace(RACED, part="part5", speed=replace(SPEED, ratio=8.0, low=7.0, high=900.0), lines=EDITED),
    replace(RACED, part="part9", outcome=Outcome.UNDECIDED, headline="undecided"),
    replace(KEPT, part="part11", case="whale_calls", script="whale_calls.py"),
    replace(RACED, part="part11", case="click_rates", speed=replace(SPEED, original="fixed script")),
]


def draw(folder: Path, *checks: kept_checks.KeptCheck) -> Path:
    """Draw the page of some checks into a folder."""
    for check in checks:
        kept_checks.keep(State(folder), check)
    found = course_report.gather(State(folder), folder / "train.py")
    page = folder / "pages" / "report.html"
    page.parent.mkdir()
    page.write_text(report_page.page(found.as_dict(), page.parent, datetime(2030, 5, 6, tzinfo=UTC)))
    return page


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a course with checks of all kinds."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "flame graph.html").write_text(fill("what ran", "", "workshop flamegraph"))
    return draw(folder, *CHECKS)


def test_each_part_has_a_row_and_what_was_measured_a_bar(browser: Browser, drawn: Path) -> None:
    with visited(browser, drawn) as page:
        assert page.title() == f"A profiling workshop for PyTorch: 4 of {len(all_parts())} parts done"
        assert "6 checks, 4 May 2030, 10:20. Drawn on" in page.inner_text("body"), "all of them in one minute"
        rows = page.locator(".part")
        assert rows.count() == len(all_parts()) + 1, "there are two scripts of part 11"
        against = page.locator(".part", has_text="click_rates").inner_text()
        assert against.endswith("no speedup: it was raced only against the fixed script, which is the solution")
        assert [row.locator(".state").inner_text() for row in rows.all()[:3]] == ["open", "done", "done"]
        assert rows.nth(1).inner_text() == "✓Part 2: Find the line\ndone", "of a part without a race, none is told"
        assert rows.nth(1).locator(".gauge").count() == 0
        widths = {
            name: page.locator(".part", has_text=name).locator(".reached").bounding_box()["width"]  # type: ignore[index]
            for name in ("Workers", "Cache", "whale_calls")
        }
        assert widths["Cache"] == pytest.approx(2 * widths["Workers"], rel=0.02)
        assert widths["Workers"] == pytest.approx(2 * widths["whale_calls"], rel=0.02)
        assert page.locator(".part", has_text="whale_calls").locator(".interval").count() == 0
        assert "4.00x\n2.00x to 5.00x" in page.locator(".part", has_text="Workers").inner_text().replace("x ", "x\n", 1)


def test_details_lead_from_the_row_and_have_the_phases(browser: Browser, drawn: Path) -> None:
    with visited(browser, drawn) as page:
        page.get_by_role("link", name="Part 3: Workers").click()
        details = page.locator("#part3")
        assert "train.py against the untouched script: 4.00x" in details.inner_text()
        assert details.locator("table tr", has_text="data wait").inner_text().split() == [
            "data",
            "wait",
            "2.00",
            "0.10",
        ]
        assert "line 7 <takes> it" in page.locator("#part2").inner_text()
        assert page.locator("#part2 .race").count() == 0


def test_lines_before_and_after_and_pages_with_links(browser: Browser, drawn: Path) -> None:
    with visited(browser, drawn) as page:
        before, after = page.locator(".sides > div").all()
        assert "train.py, before" in before.inner_text()
        assert "for batch in loader:" in before.inner_text()
        assert "after & more.lprof" in after.inner_text()
        assert "The runs differ in length: after, the lines ran 10x as often" in page.inner_text("body")
        hit = [side.locator("td:nth-child(3)").inner_text() for side in (before, after)]
        assert hit == ["633.33", "350.00"], "milliseconds a hit"
        assert page.get_by_role("link", name="../flame graph.html").get_attribute("href") == "../flame%20graph.html"


@pytest.fixture(scope="module")
def of_every_outcome(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a course that has every outcome in it."""
    return draw(tmp_path_factory.mktemp("every"), *EVERY_OUTCOME)


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_a_phone(width: int, browser: Browser, of_every_outcome: Path) -> None:
    with visited(browser, of_every_outcome) as page:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        cut = "tables => tables.filter(table => table.scrollWidth > table.clientWidth).map(table => table.innerText)"
        assert page.eval_on_selector_all(".scrolled", cut) == []


def test_a_title_has_half_of_a_phone_beside_any_verdict(browser: Browser, tmp_path: Path) -> None:
    long = "half done: the answer is right; the change: not the same work"
    with visited(browser, draw(tmp_path, replace(RACED, part="part11", case="whale_calls", headline=long))) as page:
        page.set_viewport_size({"width": 390, "height": 800})
        box = page.locator(".part .name", has_text="whale_calls").bounding_box()
        assert box
        assert box["width"] > 390 / 2


def test_what_each_part_is_told_of(browser: Browser, of_every_outcome: Path) -> None:
    with visited(browser, of_every_outcome) as page:
        states = [row.locator(".state").inner_text() for row in page.locator(".part").all()]
        assert states.count("half done") == 2
        memory = page.locator(".part", has_text="Part 12")
        assert "155 → 23 MiB" in memory.inner_text()
        before, after = (memory.locator(f".memory .{side}").bounding_box() for side in ("before", "after"))
        assert before
        assert after
        assert after["width"] / before["width"] == pytest.approx(23 / 155, rel=0.05)
        assert "155.0 MiB" in page.locator("#part12").inner_text()
        assert "the solution: fixed script" in page.locator("#part11-keyword_spotting").inner_text()
        assert "before" not in page.locator("#part11-keyword_spotting").inner_text()
        assert "not looked at on cpu" in page.locator(".part", has_text="Part 6").inner_text()


def test_it_is_dark_on_a_dark_screen_and_white_on_paper(browser: Browser, drawn: Path) -> None:
    with visited(browser, drawn) as page:
        ground = "getComputedStyle(document.body).backgroundColor"
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(ground) == "rgb(20, 23, 27)"
        page.emulate_media(color_scheme="dark", media="print")
        assert page.evaluate(ground) == "rgb(255, 255, 255)"


def test_nothing_was_done(browser: Browser, tmp_path: Path) -> None:
    with visited(browser, draw(tmp_path)) as page:
        text = page.locator("body").inner_text()
        assert "No check was kept here yet." in text
        assert page.locator(".part .state", has_text="open").count() == len(all_parts())
        assert page.locator("section").count() == 1
        assert "x" not in {word[-1] for word in text.split() if word[0].isdigit()}, "no speedup is told"
