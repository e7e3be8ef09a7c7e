"""The room's pages in a real browser: they show what comes by itself, and whatever was sent is text."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from classroom.conftest import OpenRoom, RunningRoom
from classroom.test_room import post, report

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


def test_the_board_shows_a_result_by_itself(browser: "Browser", room: RunningRoom) -> None:
    token = room.join("Ada")
    with seen(browser, room.address) as page:
        page.wait_for_selector("text=Ada")
        assert room.code in page.inner_text("#commands")
        post(room, token, report())
        page.wait_for_selector("td.done >> text=✓ 75 %", timeout=2000)
        assert page.inner_text("#counts") == "1 participant · 1 part done"


def test_nothing_that_was_sent_becomes_markup(browser: "Browser", open_room: OpenRoom) -> None:
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


def test_the_board_fits_a_projector_a_phone_and_paper(browser: "Browser", open_room: OpenRoom) -> None:
    room = open_room()
    names = [
        "محمد بن موسى الخوارزمي أبو عبد الله",
        "W" * 40,
        *(f"Participant with a name {number}" for number in range(28)),
    ]
    for name in names:
        token = room.join(name)
        for part in (f"part{number}" for number in range(3, 11)):
            assert post(room, token, report(part=part))[0] == 201
    with seen(browser, room.address) as page:
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


def test_the_instructor_hides_names_and_exports(browser: "Browser", open_room: OpenRoom) -> None:
    room = open_room()
    post(room, room.join("Ada"), report())
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


def test_why_somebody_cannot_be_readmitted_stays_on_the_page(browser: "Browser", open_room: OpenRoom) -> None:
    room = open_room()
    assert room.ask("POST", "/api/leave", {}, room.join("Ada"))[0] == 200
    [left] = room.ask("GET", "/api/results", secret=room.key)[1]["people"]
    assert room.ask("POST", "/api/control", {"remove": left["id"]}, room.key)[0] == 200
    room.join("Ada")
    page = browser.new_page()
    page.goto(f"{room.address}/instructor#{room.key}")
    page.click("button >> text=Readmit")
    page.wait_for_selector("#trouble >> text=there is a Ada in the room already")
    with page.expect_response("**/api/results"):
        pass
    page.wait_for_timeout(200)
    assert page.is_visible("#trouble")
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


@pytest.mark.slow
def test_the_board_says_that_the_room_is_gone_and_comes_back(browser: "Browser", open_room: OpenRoom) -> None:
    room = open_room()
    page = browser.new_page()
    page.goto(room.address)
    page.wait_for_selector("text=Nobody has joined yet.")
    room.end(9)
    page.wait_for_selector("#trouble:not([hidden])", timeout=5000)
    again = open_room("--port", room.address.rpartition(":")[2])
    again.join("Ada")
    page.wait_for_selector("text=Ada", timeout=5000)
    assert not page.is_visible("#trouble")
    page.close()


@pytest.mark.parametrize("path", ["", "/instructor"])
def test_no_other_page_frames_it(browser: "Browser", room: RunningRoom, path: str) -> None:
    class Framing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<iframe src="{room.address}{path}"></iframe>'.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Framing) as other:
        threading.Thread(target=other.serve_forever, args=(0.02,), daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{other.server_port}")
        page.wait_for_timeout(300)
        assert page.frames[1].url == "chrome-error://chromewebdata/"
        page.close()
        other.shutdown()
