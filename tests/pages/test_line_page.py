"""The page of `workshop lines --html` in a real browser: Chromium, without a window."""

import subprocess
import sys
from pathlib import Path

import pytest
from browsers import visited
from playwright.sync_api import Browser

from workshop.pages import line_page
from workshop.profiles import line_profile
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
    (folder / "script.py").write_text(SCRIPT)
    body = "".join(f"def function_{n}(k):\n    total = 0\n    return total + k\n\n\n" for n in range(1000))
    calls = "".join(f"function_{n}({n})\n" for n in range(1000))
    (folder / "long.py").write_text(body + calls)
    for name in ("script", "long"):
        line = [sys.executable, "-m", "workshop", "record", "lines", "--", f"{name}.py"]
        subprocess.run(line, cwd=folder, check=True, capture_output=True)
        profile = line_profile.read(folder / f"{name}.py.lprof")
        (folder / f"{name}.html").write_text(line_page.page(profile, tables(profile, by_process=name == "script")))
    return folder


def test_the_source_with_the_heat_of_the_whole_run(browser: Browser, drawn: Path) -> None:
    with visited(browser, drawn / "script.html") as page:
        section = page.locator("#s0")
        loop, sleep = (
            float((section.locator("tr", has_text=text).get_attribute("style") or "").removeprefix("--heat:"))
            for text in ("for batch in", "time.sleep(0.02)")
        )
        assert sleep < loop == pytest.approx(1.0, abs=0.01), "the run is longer than what it waits for"
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
