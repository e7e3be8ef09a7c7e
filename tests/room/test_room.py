"""The room as a participant and an instructor meet it, over HTTP."""

import csv
import http.client
import io
import json
import secrets
import time
from typing import Any

import pytest
from room.conftest import OpenOne, RunningRoom, in_process


def report(**fields: Any) -> dict[str, Any]:
    known = {"id": secrets.token_hex(16), "kind": "check", "part": "part3", "at": time.time(), "outcome": "done"}
    return known | {"ratio": 3.0, "low": 2.5, "high": 3.5, "solution_ratio": 4.0} | fields


def post(room: RunningRoom, token: str, sent: Any) -> tuple[int, Any]:
    return room.ask("POST", "/api/reports", {"now": time.time(), "report": sent}, token)


def person(room: RunningRoom, name: str) -> dict[str, Any]:
    [found] = [each for each in room.board()["people"] if each["name"] == name]
    return dict(found)


def test_a_result_is_on_the_board_at_once(room: RunningRoom) -> None:
    token = room.join("Ada")
    assert person(room, "Ada")["at"] == "part1"
    assert post(room, token, report())[0] == 201
    assert person(room, "Ada")["parts"]["part3"] == {"outcome": "done", "done": True, "share": 0.75, "checks": 1}
    assert person(room, "Ada")["at"] == "part4"


def test_what_is_sent_again_is_kept_once(room: RunningRoom) -> None:
    token, sent = room.join("Grace"), report()
    assert post(room, token, sent)[0] == 201
    assert post(room, token, sent) == (409, {"error": "this has arrived before", "kept": True})
    other = post(room, token, sent | {"outcome": "broken"})
    assert other == (409, {"error": "something else has arrived under this id, and stays"})
    assert [each["outcome"] for each in room.results() if each["name"] == "Grace"] == ["done"]


def test_nobody_writes_over_the_results_of_another(room: RunningRoom) -> None:
    owner, other, sent = room.join("Owner"), room.join("Other"), report()
    assert post(room, owner, sent)[0] == 201
    assert post(room, other, sent | {"outcome": "broken"})[0] == 201  # under the same id, as a result of its own
    assert [each["outcome"] for each in room.results() if each["name"] == "Owner"] == ["done"]


def test_a_name_is_taken_once(room: RunningRoom) -> None:
    room.join("Édith")
    status, answer = room.ask("POST", "/api/join", {"code": room.code, "name": " E\u0301DITH "})
    assert (status, answer["error"]) == (409, "there is a ÉDITH in the room already: take another name")


def test_who_has_left_or_was_removed_leaves_the_name_to_others(open_room: OpenOne) -> None:
    room = open_room()
    assert room.ask("POST", "/api/leave", {}, room.join("Ada"))[0] == 200
    post(room, room.join("ada"), report())
    first, second = room.ask("GET", "/api/results", secret=room.key)[1]["people"]
    assert (first["state"], second["state"]) == ("left", "here")
    taken = (409, {"error": "there is a Ada in the room already: take another name"})
    assert room.ask("POST", "/api/control", {"readmit": first["id"]}, room.key) == taken
    assert room.ask("POST", "/api/control", {"remove": second["id"]}, room.key)[0] == 200
    assert room.ask("POST", "/api/control", {"readmit": first["id"]}, room.key)[0] == 200
    room.end()
    again = open_room()
    assert again.ask("POST", "/api/join", {"code": room.code, "name": "ADA"})[0] == 409
    assert [each["name"] for each in again.board()["people"]] == ["Ada"]


def test_the_code_may_be_typed_in_any_way(room: RunningRoom) -> None:
    code = f" {room.code[:3].lower()}-{room.code[3:]} "
    assert room.ask("POST", "/api/join", {"code": code, "name": "Typist"})[0] == 201
    assert room.ask("POST", "/api/join", {"code": "", "name": "Nobody"})[0] == 403


def test_the_clock_of_a_participant_need_not_be_right(room: RunningRoom) -> None:
    token, year_1970 = room.join("Timeless"), 1000.0
    sent = report(at=year_1970 - 90)
    assert room.ask("POST", "/api/reports", {"now": year_1970, "report": sent}, token)[0] == 201
    [found] = [each for each in room.results() if each["name"] == "Timeless"]
    assert found["received_at"] - found["happened_at"] == pytest.approx(90)


@pytest.mark.parametrize("path", ["/api/results", "/api/results.csv"])
@pytest.mark.parametrize("secret", ["", "x", "é"])
def test_exports_need_the_key(room: RunningRoom, path: str, secret: str) -> None:
    assert room.ask("GET", path, secret=secret.encode().decode("latin1"))[0] == 403


def test_exports_hold_every_result_and_no_formula(room: RunningRoom) -> None:
    post(room, room.join("=1+1"), report(part="part5"))
    status, table = room.ask("GET", "/api/results.csv", secret=room.key)
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    assert (status, len(rows)) == (200, len(room.results()))
    [row] = [row for row in rows if row["part"] == "part5"]
    assert (row["name"], row["outcome"], row["ratio"]) == ("'=1+1", "done", "3.0")


def test_the_controls(open_room: OpenOne) -> None:
    room = open_room()
    token = room.join("Rude name")
    assert room.ask("POST", "/api/control", {"hide_names": True}, token)[0] == 403
    assert room.ask("POST", "/api/control", {"hide_names": True, "joining": False}, room.key)[0] == 200
    board = room.board()
    assert "Rude" not in json.dumps(board)
    assert [each["name"] for each in board["people"]] == ["Participant 1"]
    assert room.ask("POST", "/api/join", {"code": room.code, "name": "Late"})[0] == 403
    exported = room.ask("GET", "/api/results", secret=room.key)[1]
    [known] = exported["people"]
    assert exported["schema_version"] == 1
    assert room.ask("POST", "/api/control", {"remove": known["id"]}, room.key)[0] == 200
    assert room.board()["people"] == []
    assert post(room, token, report())[0] == 403
    assert room.ask("POST", "/api/control", {"format_disk": True}, room.key)[0] == 400


def test_after_a_kill_everything_that_was_acknowledged_is_there(open_room: OpenOne, workshop: Any) -> None:
    room = open_room(by=in_process)
    token, sent = room.join("Ada"), [report() for _ in range(20)]
    assert {post(room, token, each)[0] for each in sent} == {201}
    before = room.board()
    refused = workshop("room", "--port", "0", "--host", "127.0.0.1")
    assert (refused.returncode, refused.stderr) == (
        2,
        "another room uses room.sqlite; end it, or name another file with --database\n",
    )
    room.end()
    again = open_room()
    assert (again.code, again.key) == (room.code, room.key)
    assert {each["id"] for each in again.results()} == {each["id"] for each in sent}
    assert again.board()["people"] == before["people"]
    assert post(again, token, sent[0])[1]["kept"]


def test_an_unchanged_board_is_not_sent_again_and_no_other_page_frames_it(open_room: OpenOne) -> None:
    room = open_room()
    connection = http.client.HTTPConnection(room.address.removeprefix("http://"))
    connection.request("GET", "/api/board")
    first = connection.getresponse()
    first.read()
    connection.request("GET", "/api/board", headers={"If-None-Match": first.headers["ETag"]})
    again = connection.getresponse()
    assert (again.status, again.read()) == (304, b"")
    for path in ("/", "/instructor"):
        connection.request("GET", path)
        page = connection.getresponse()
        page.read()
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    connection.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--database", "mysql://x"], "mysql://x is no database: name a file, or postgresql://USER@HOST/NAME"),
        (["--database", "no/such/folder/room.sqlite"], "there is no folder no/such/folder for room.sqlite"),
        (["no-such-folder"], "there is no folder no-such-folder"),
        (["."], "room.sqlite lies in ., so the whole class could fetch it; keep it elsewhere"),
        (["--host", "203.0.113.7"], "cannot listen on 203.0.113.7:0 (Cannot assign requested address)"),
    ],
)
def test_what_cannot_be_opened(workshop: Any, arguments: list[str], says: str) -> None:
    refused = workshop("room", "--host", "127.0.0.1", "--port", "0", *arguments)
    assert refused.returncode == 2
    assert refused.stderr.startswith(says), refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--private-key", __file__], "goes with --certificate"),
        (["--address", "room example"], "no address of a room"),
    ],
)
def test_wrong_options_are_told(workshop: Any, arguments: list[str], says: str) -> None:
    refused = workshop("room", *arguments)
    assert refused.returncode == 2
    assert says in " ".join(refused.stderr.split())
