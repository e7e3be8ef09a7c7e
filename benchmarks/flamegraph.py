"""How long a browser takes to show a flame graph of many stacks, and to answer.

    python benchmarks/flamegraph.py

The stacks are made up: every one distinct, 25 frames deep, which is more than a profiler meets in practice. The browser
is Chromium without a window.
"""

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from machine import machine
from playwright.sync_api import Page, sync_playwright

from workshop.errors import WorkshopError, plain_errors
from workshop.pages import flame_page
from workshop.profiles import stacks

DEPTH = 25
PAINTED = """() => performance.getEntriesByName("first-contentful-paint")[0].startTime"""
LOADED = """() => performance.getEntriesByType("navigation")[0].loadEventEnd"""
NEXT_FRAME = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"


def main() -> None:
    """Draw, open, zoom, search; print how long each took."""
    parser = argparse.ArgumentParser(description="Open a large flame graph.")
    parser.add_argument("--stacks", type=int, default=100_000, help="distinct ones; default 100000")
    arguments = parser.parse_args()
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise WorkshopError("there is no Chromium here")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder, "flamegraph.html")
        begin = time.perf_counter()
        recording = stacks.parse(made_up(arguments.stacks))
        path.write_text(flame_page.draw(path, recording, library="train.py"), encoding="utf-8")
        drawn_s = time.perf_counter() - begin
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(path.as_uri())
        print(machine(), f"Chromium {browser.version}", sep="\n")
        print(f"{arguments.stacks} stacks, {page.evaluate('count')} nodes, {path.stat().st_size / 1e6:.1f} MB\n")
        print(f"file written    {drawn_s:6.2f} s")
        print(f"first paint     {page.evaluate(PAINTED) / 1000:6.2f} s")
        print(f"page loaded     {page.evaluate(LOADED) / 1000:6.2f} s")
        print(f"a click zooms   {timed(page, lambda: page.locator('.frame').nth(3).click()):6.2f} s")
        print(f"a search marks  {timed(page, lambda: page.fill('#search', 'f1')):6.2f} s")
        browser.close()


def made_up(count: int) -> Iterator[str]:
    """Lines as py-spy writes them. The first frames of two stacks are often alike, the last ones hardly ever."""
    chance = random.Random(0)
    for number in range(count):
        calls = [chance.randrange(2 + depth) for depth in range(DEPTH)]
        frames = [f"f{call} (package/module{call % 7}.py:{call})" for call in calls]
        yield f"main (train.py:1);{';'.join(frames)};leaf (train.py:{number}) {chance.randrange(1, 9)}\n"


def timed(page: Page, action) -> float:
    """Seconds until the picture after an action."""
    begin = time.perf_counter()
    action()
    page.evaluate(NEXT_FRAME)
    return time.perf_counter() - begin


if __name__ == "__main__":
    with plain_errors():
        main()
