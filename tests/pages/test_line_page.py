"""The page of `workshop lines --html` in a real browser: Chromium, without a window."""

from pathlib import Path

import pytest
from browsers import visited
from made_lines import made_lines
from playwright.sync_api import Browser

from workshop.pages import line_page
from workshop.profiles.line_tables import tables

SCRIPT = """\
import time
from torch.utils.data import DataLoader


class Items:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        time.sleep(0.02)
        return "<b>" * (index < 0) or index


if __name__ == "__main__":
    for batch in DataLoader(Items(), num_workers=2):
        pass
"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a script with two workers, and of one with thousands of lines."""
    folder = tmp_path_factory.mktemp("listing")
    file = folder / "script.py"
    of_worker = {(file, "Items.__getitem__"): {10: (2, 15.0), 11: (2, 0.1)}}
    own = {(file, "<module>"): {1: (1, 0.1), 2: (1, 20.0), 5: (1, 0.1), 14: (1, 0.0), 15: (5, 75.0), 16: (4, 0.0)}}
    workers = {"worker_0": of_worker, "worker_1": of_worker}
    profile = made_lines(
        folder / "script.lprof", {file: SCRIPT}, own | {(file, "Items.__len__"): {7: (3, 0.0)}}, **workers
    )
    (folder / "script.html").write_text(line_page.page(profile, tables(profile, by_process=True)))
    file = folder / "long.py"
    body = "".join(f"def function_{n}(k):\n    total = 0\n    return total + k\n\n\n" for n in range(1000))
    counts = {(file, f"function_{n}"): {5 * n + 2: (1, 0.001), 5 * n + 3: (1, 0.001)} for n in range(1000)}
    calls = {5000 + n: (1, 0.005) for n in range(1, 1001)}
    text = body + "".join(f"function_{n}({n})\n" for n in range(1000))
    profile = made_lines(folder / "long.lprof", {file: text}, counts | {(file, "<module>"): calls})
    (folder / "long.html").write_text(line_page.page(profile, tables(profile)))
    return folder


def test_the_source_with_the_heat_of_the_whole_run(browser: Browser, drawn: Path) -> None:
    with visited(browser, drawn / "script.html") as page:
        section = page.locator("#s0")
        loop, sleep = (
            float((section.locator("tr", has_text=text).get_attribute("style") or "").removeprefix("--heat:"))
            for text in ("for batch in", "time.sleep(0.02)")
        )
        assert (sleep, loop) == (pytest.approx(30 / 75, abs=0.01), pytest.approx(1, abs=0.01)), "without imports"
        assert '"<b>" * (index < 0)' in section.inner_text()


def test_a_click_leads_to_the_function(browser: Browser, drawn: Path) -> None:
    with visited(browser, drawn / "long.html") as page:
        assert page.locator("#s0 tr td:nth-child(4)").count() == 6000
        page.locator("details summary").click()
        link = page.get_by_text("function_999", exact=True).first
        link.click()
        assert page.evaluate("scrollY") > 10_000
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_processes_are_told_apart(browser: Browser, drawn: Path) -> None:
    with visited(browser, drawn / "script.html") as page:
        assert page.locator("label").all_inner_texts() == ["all processes", "main process", "worker 0", "worker 1"]
        page.get_by_text("worker 1", exact=True).click()
        row = page.locator("section:visible tr", has_text="time.sleep(0.02)")
        assert row.locator("td").first.inner_text() == "2"
        assert page.locator("section:visible").count() == 1


def test_an_empty_module_has_no_line(tmp_path: Path) -> None:
    """Python reports a line 0 of it, and the sections of single processes have only the lines that ran."""
    file, empty = tmp_path / "work.py", tmp_path / "__init__.py"
    counts = {(empty, "<module>"): {0: (1, 0.1)}, (file, "work"): {2: (1, 5.0)}}
    profile = made_lines(tmp_path / "x.lprof", {file: "def work():\n    pass\n", empty: ""}, counts, worker_0=counts)
    drawn = line_page.page(profile, tables(profile, by_process=True))
    assert drawn.count("<td>    pass</td>") == 3
    assert "__init__.py" not in drawn
