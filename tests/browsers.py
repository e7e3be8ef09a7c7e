"""Chromium, without a window: real pages are tested in it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser; where there is none the test is skipped, and fails in CI."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have a browser: apt-get install chromium")
        pytest.skip("there is no Chromium here")
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


@contextmanager
def visited(browser: Browser, file: Path) -> Iterator[Page]:
    """A page of a file, which must not complain, and ask for nothing else."""
    trouble: list[str] = []
    asked: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    yield page
    assert trouble == []
    assert asked == [file.as_uri()]
