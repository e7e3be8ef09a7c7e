"""Chromium, without a window: real pages are tested in it."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def _chromium() -> "Iterator[tuple[Browser, asyncio.AbstractEventLoop]]":
    """A browser for all tests, and the event loop of playwright, which is not the current one between two tests."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have a browser: apt-get install chromium")
        pytest.skip("there is no Chromium here")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=program, args=options)
        browser.new_page()
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture
def browser(_chromium: "tuple[Browser, asyncio.AbstractEventLoop]") -> "Iterator[Browser]":
    """A browser; where there is none the test is skipped, and fails in CI."""
    browser, loop = _chromium
    asyncio._set_running_loop(loop)
    yield browser
    for context in browser.contexts[1:]:
        context.close()
    asyncio._set_running_loop(None)  # else no other test could run a loop of its own


@contextmanager
def visited(browser: "Browser", file: Path) -> "Iterator[Page]":
    """Open a page from a file; it must not complain, and must load nothing else."""
    trouble: list[str] = []
    asked: list[str] = []
    events = {
        "console": lambda message: trouble.append(message.text),
        "pageerror": lambda error: trouble.append(str(error)),
        "request": lambda request: asked.append(request.url),
    }
    page = browser.contexts[0].pages[0]  # one for all files: to make another takes longer than to read most
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(media="null", color_scheme="null")
    page.mouse.move(0, 0)
    for name, note in events.items():
        page.on(name, note)
    page.goto(file.as_uri())
    yield page
    for name, note in events.items():
        page.remove_listener(name, note)
    assert (trouble, asked) == ([], [file.as_uri()])
