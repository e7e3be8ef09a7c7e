"""The room's pages in a real browser: they show what comes by itself, and whatever was sent is text."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from room.conftest import OpenOne, RunningRoom
from room.test_room import post, report

from workshop.room.posts import RoomReport
from workshop.room.store import Participant, ReceivedReport, Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

A4_WIDTH = 688
"""In the units of CSS, without the margins."""

HOSTILE = ["<img src=x onerror=hit()>", "<script>hit()</script>", '"><svg onload=hit()>', "{{7*7}}${7*7}"]
HOSTILE += ["javascript:hit()", "</td></table><h1>won", "&lt;b&gt;", "__proto__", "constructor", "=HYPERLINK(1)"]


@contextmanager
def seen(browser: "Browser", address: str) -> "Iterator[Page]":
    """Open a page, which must not complain, and must ask nobody but the room."""
    trouble: list[str] = []
    page = browser.new_page(viewport={"width": 1920, "height": 1080})
    page.add_init_script("window.hit = () => { throw Error('injected') }")
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: trouble.append(dialog.message))
    page.on(
        "request",
        lambda request: request.url.startswith((address[:20], "data:", "blob:")) or trouble.append(request.url),
    )
    page.goto(address)
    yield page
    page.close()
    assert trouble == []


def test_the_board_shows_a_result_by_itself_and_comes_back_with_the_room(
    browser: "Browser", open_room: OpenOne
) -> None:
    room = open_room()
    token = room.join("Ada")
    with seen(browser, room.address) as page:
        page.wait_for_selector("text=Ada")
        assert room.code in page.inner_text("#commands")
        post(room, token, report())
        page.wait_for_selector("td.done >> text=✓ 75 %")
        assert page.inner_text("#counts") == "1 participant · 1 part done"
    page = browser.new_page()
    page.goto(room.address)
    room.end()
    page.wait_for_selector("#trouble:not([hidden])")
    again = open_room(port=int(room.address.rpartition(":")[2]))
    again.join("Grace")
    page.wait_for_selector("text=Grace")
    assert not page.is_visible("#trouble")
    page.close()


def test_nothing_that_was_sent_becomes_markup(browser: "Browser", open_room: OpenOne) -> None:
    room = open_room()
    for text in HOSTILE:
        sent = report(outcome="not the same work", reason=text * 3, machine=text)
        assert post(room, room.join(text), sent)[0] == 201
    with seen(browser, room.address) as page:
        page.wait_for_selector("tbody tr:nth-child(10)")
        assert page.eval_on_selector_all("td.name", "cells => cells.map(cell => cell.textContent)") == HOSTILE
        assert page.locator("img, svg, script:not([src]), h1 ~ h1, iframe").count() == 0
    with seen(browser, f"{room.address}/instructor#{room.key}") as page:
        page.wait_for_selector("#refused li")
        assert page.locator("img, svg, script:not([src]), iframe, a[href^=javascript]").count() == 0
        names = page.eval_on_selector_all("td.name", "cells => cells.map(cell => cell.textContent)")
        assert names == HOSTILE
        assert page.url == f"{room.address}/instructor"  # the key is not in the history


def test_the_board_fits_a_projector_a_phone_and_paper(browser: "Browser", open_room: OpenOne, tmp_path: Path) -> None:
    names = [
        "محمد بن موسى الخوارزمي أبو عبد الله",
        "W" * 40,
        *(f"Participant with a name {number}" for number in range(28)),
    ]
    store = Store(str(tmp_path / "room.sqlite"))
    for number, name in enumerate(names):
        store.join(Participant(f"{number:032x}", name, f"{number:064x}", number))
    sent = {"ratio": 3.0, "low": 2.5, "high": 3.5, "solution_ratio": 4.0, "outcome": "done"}
    reports = [
        ReceivedReport(f"{number:032x}", now, now, RoomReport(f"{part:032x}", "check", f"part{part}", now, **sent))
        for now in [time.time()]
        for number in range(len(names))
        for part in range(3, 11)
    ]
    store.keep(reports)
    store.close()
    with seen(browser, open_room().address) as page:
        page.wait_for_selector("tbody tr:nth-child(30)")
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight"), "all are seen at once"
        for width, media in ((1920, "screen"), (390, "screen"), (A4_WIDTH, "print")):
            page.set_viewport_size({"width": width, "height": 1080})
            page.emulate_media(media=media)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, media)
            assert page.evaluate(IS_CLEAR), (width, media)
            [beginning, cell] = page.evaluate(BEGINNING)
            assert cell["left"] <= beginning["left"] < beginning["right"] <= cell["right"], (width, media)


IS_CLEAR = """() => {
  const [table, aside] = ["#people table", "aside"].map(each => document.querySelector(each).getBoundingClientRect());
  return table.bottom <= aside.top || document.querySelector("#people").getBoundingClientRect().right <= aside.left
    && (table.right <= aside.left || getComputedStyle(document.querySelector(".scrolled")).overflowX === "auto");
}"""
"""Whether the table of people does not run into what stands beside it."""

BEGINNING = """() => {
  const cell = document.querySelector("td.name"), range = document.createRange();
  range.setStart(cell.querySelector("bdi").firstChild, 0);
  range.setEnd(cell.querySelector("bdi").firstChild, 1);
  return [range, cell].map(each => each.getBoundingClientRect().toJSON());
}"""
"""Where the first letter of the first name is, and its cell."""


def test_the_instructor_hides_names_exports_and_removes(browser: "Browser", open_room: OpenOne) -> None:
    room = open_room()
    token = room.join("Ada")
    post(room, token, report())
    with seen(browser, f"{room.address}/instructor#{room.key}") as page:
        page.click("#hide_names")
        page.wait_for_selector("td.name")
        with page.expect_download() as downloading:
            page.click("#csv")
        assert "Ada" in downloading.value.path().read_text()
        with page.expect_download() as downloading:
            page.click("#json")
        exported = json.loads(downloading.value.path().read_text())
        assert (downloading.value.suggested_filename, exported["results"]) == ("room.json", room.results())
        page.wait_for_function("fetch('api/board').then(a => a.json()).then(b => b.people[0].name == 'Participant 1')")
        page.click("button >> text=Remove")
        page.wait_for_selector("button >> text=Readmit")
    assert room.board()["people"] == []

    room.join("Ada")  # another one
    page = browser.new_page()
    page.goto(f"{room.address}/instructor#{room.key}")
    page.click("button >> text=Readmit")
    page.wait_for_selector("#trouble >> text=there is a Ada in the room already")
    for _ in range(2):  # the one that was on its way may have been asked for before
        with page.expect_response("**/api/results"):
            pass
    assert page.is_visible("#trouble"), "why it cannot be stays on the page"
    page.close()


def test_without_the_key_the_page_shows_nothing(browser: "Browser", room: RunningRoom) -> None:
    page = browser.new_page()
    page.goto(f"{room.address}/instructor")
    page.wait_for_selector("#key")
    page.fill("#key", "wrong")
    page.click("#ask button")
    page.wait_for_selector("#trouble >> text=key")
    assert not page.is_visible("#shown")
    page.close()
