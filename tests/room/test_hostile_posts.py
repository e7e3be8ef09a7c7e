"""What is malformed, oversized, replayed, forged or hostile is refused with 4xx, and the board goes on."""

import asyncio
import json
import random
import secrets
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from room.conftest import OpenOne, RunningRoom
from room.test_room import post, report

from workshop.room import open_room as open_room_module
from workshop.room import serving, web_app
from workshop.room.posts import MAX_BODY_BYTES, JoinPost
from workshop.room.store import Store

WRONG_FIELDS = [
    {"id": "../../etc/passwd"},
    {"id": "A" * 32},
    {"id": "0" * 32 + "\n"},
    {"part": "part99"},
    {"part": "../part3"},
    {"part": "part3\n"},
    {"part": 3},
    {"kind": "run"},
    {"outcome": "won"},
    {"outcome": None},
    {"ratio": 0},
    {"ratio": -1},
    {"ratio": "3"},
    {"ratio": 1e9},
    {"ratio": True},
    {"ratio": 9.0},
    {"low": 3.2},
    {"low": None},
    {"high": 1.0},
    {"solution_ratio": 0},
    {"hints": -1},
    {"hints": 1.5},
    {"hints": 10**30},
    {"reason": "x" * 301},
    {"reason": "a\x00b"},
    {"reason": ["x"]},
    {"machine": "\x1b[2J"},
    {"at": -1},
    {"at": "now"},
    {"script": "import os"},
    {"name": "somebody else"},
    {"participant": "0" * 32},
    {"__class__": "os.system"},
]

RAW = [
    b"",
    b"null",
    b"[]",
    b"{",
    b"\xff\xfe",
    b'{"now": NaN}',
    b"[" * 4000,
    b'{"now": 1e999, "report": {}}',
    b"x" * 5000,
    b" " * 1_000_000,
    json.dumps({"now": 1.0, "report": "text"}).encode(),
]

NAMES = ["", " ", "x" * 41, "a\x00b", "a\u202eb", "a\u200bb", "\u0301" * 5, "a\x1b[31m", 5, None, ["Ada"], {"a": 1}]


def test_every_wrong_field_is_refused(room: RunningRoom) -> None:
    token = room.join("Field tester")
    for fields in WRONG_FIELDS:
        status, answer = room.ask("POST", "/api/reports", {"now": 1.0, "report": report(**fields)}, token)
        assert status == 400, (fields, status, answer)
    assert not [each for each in room.results() if each["name"] == "Field tester"]


def test_what_is_no_report_is_refused(open_room: OpenOne) -> None:
    room = open_room()
    token = room.join("Raw")
    for body in RAW:
        refused = 413 if len(body) > MAX_BODY_BYTES else 400
        assert room.ask("POST", "/api/reports", body, token)[0] == refused, body[:50]
        assert room.ask("POST", "/api/join", body)[0] == refused, body[:50]


def test_names_that_cannot_be_shown_are_refused(open_room: OpenOne) -> None:
    room = open_room()
    for name in NAMES:
        assert room.ask("POST", "/api/join", {"code": room.code, "name": name})[0] == 400, name


def test_a_forged_token_is_refused(open_room: OpenOne) -> None:
    room = open_room()
    for token in ("", "x", "0" * 43, "a" * 8000):
        assert post(room, token, report())[0] == 401, token


PATHS = """/files/../room.sqlite /files/..%2froom.sqlite /files/%2e%2e/room.sqlite /files//etc/passwd /files/room.sqlite
    /files/.%00 /simple/../../x/ /simple/%2e%2e/ /static/../store.py /room.sqlite /board.html /instructor/ /api
    /api/reports/1 //evil.example/ /files/ /%ff"""


def test_nothing_is_served_that_is_not_shared(room: RunningRoom) -> None:
    for path in PATHS.split():
        assert room.ask("GET", path)[0] in (307, 404), path


def test_other_methods_are_refused(room: RunningRoom) -> None:
    for method, path in [
        ("PUT", "/api/reports"),
        ("DELETE", "/"),
        ("GET", "/api/join"),
        ("POST", "/files/x"),
        ("X", "/"),
    ]:
        assert room.ask(method, path)[0] == 405, (method, path)


def test_hostile_posts_leave_the_board_as_it_was(open_room: OpenOne) -> None:
    room = open_room()
    token, bystander = room.join("<img src=x onerror=alert(1)>"), room.join("An honest one")
    sent = report()
    assert post(room, token, sent)[0] == 201
    before, kept = room.board()["people"], len(room.results())
    answers = {room.ask("POST", *each)[0] for each in hostile(token, sent, random.Random(1))}
    assert answers <= {400, 401, 403, 409, 413, 429}
    assert answers >= {400, 401, 409, 413}
    assert (room.board()["people"], len(room.results())) == (before, kept)
    assert post(room, bystander, report())[0] == 201


def hostile(token: str, sent: dict[str, Any], rng: random.Random) -> Iterator[tuple[str, Any, str]]:
    for _ in range(40):
        yield "/api/reports", {"now": time.time(), "report": sent}, token  # replayed
        yield "/api/reports", {"now": 1.0, "report": report(**rng.choice(WRONG_FIELDS))}, token
        yield "/api/reports", rng.choice(RAW), token
        yield "/api/reports", {"now": 1.0, "report": report()}, secrets.token_urlsafe(32)
        yield "/api/join", {"code": "".join(rng.sample("ABCDEFGH", 6)), "name": "<script>alert(1)</script>"}, ""


def test_who_guesses_codes_is_slowed_down_and_disturbs_nobody(open_room: OpenOne) -> None:
    room = open_room()
    token = room.join("Bystander")
    answers = [room.ask("POST", "/api/join", {"code": "WRONG1", "name": "x"})[0] for _ in range(100)]
    assert 429 in answers
    assert post(room, token, report())[0] == 201


def test_who_takes_every_name_is_slowed_down_and_makes_room_by_being_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_room_module, "MAX_PARTICIPANTS", 3)
    store = Store(str(tmp_path / "room.sqlite"))
    room = open_room_module.OpenRoom(store, {"part1": "Title"}, "http://x")

    def status(name: str, address: str = "10.0.0.1") -> int:
        try:
            asyncio.run(room.join(JoinPost(room.code, name), address))
        except open_room_module.RefusedError as error:
            return int(error.status)
        return 201

    assert [status(f"Name {number}") for number in range(4)] == [201, 201, 201, 403]
    for person in room.people():
        asyncio.run(room.control("remove", person["id"]))
    assert status("Ada", "10.0.0.2") == 201
    monkeypatch.setattr(open_room_module, "MAX_PARTICIPANTS", 1000)
    answers = [status(f"More {number}") for number in range(250)]
    assert (answers.count(201), answers[-1]) == (250 - 3, 429)
    assert status("Grace", "10.0.0.2") == 201
    room.close()
    store.close()


def test_who_takes_all_connections_gets_so_many_and_nobody_else_waits(
    open_room: OpenOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MAX_FROM_ADDRESS", 20)
    room = open_room()
    host, _, port = room.address.removeprefix("http://").partition(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(20)]
    with pytest.raises(ConnectionResetError):
        room.board()
    other = socket.create_connection((host, int(port)), source_address=("127.0.0.2", 0))
    other.sendall(b"GET /api/board HTTP/1.1\r\nHost: x\r\n\r\n")
    assert other.recv(100).startswith(b"HTTP/1.1 200")
    for each in [*idle, other]:
        each.close()
    assert room.board()["people"] == []


def test_who_asks_for_nothing_or_sends_nothing_is_hung_up_on_and_holds_nobody_up(
    open_room: OpenOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (serving, web_app):
        monkeypatch.setattr(module, "REQUEST_WITHIN_S", 2.0)
    room = open_room()
    host, _, port = room.address.removeprefix("http://").partition(":")
    token = room.join("Patient")
    head = f"POST /api/reports HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n"
    silent, began = list[socket.socket](), time.monotonic()
    for start in [b"", b"GET /api/bo", *[head.encode()] * 10]:
        silent.append(socket.create_connection((host, int(port)), timeout=60))
        silent[-1].sendall(start)
    assert post(room, token, report())[0] == 201
    select.select(silent, [], [])
    assert time.monotonic() - began >= 2.0, "until then, nobody is hung up on"
    for each in silent[:2]:
        with suppress(ConnectionResetError):
            assert each.recv(100) == b""
    assert all(each.recv(100).startswith(b"HTTP/1.1 408") for each in silent[2:])
    for each in silent:
        each.close()
