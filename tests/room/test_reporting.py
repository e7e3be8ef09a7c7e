"""Joining, what is sent then, and what waits until the room is back."""

import http.server
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from room.conftest import RunningRoom, in_thread

from workshop.course.kept_checks import KeptCheck, of_verdict
from workshop.course.state import State
from workshop.judge.optimizer_proof import OptimizerReason
from workshop.judge.reasons import Reason
from workshop.judge.verdict import HALF_DONE, Outcome, Speed, Verdict, VerdictReason
from workshop.room import reporting
from workshop.room.reporting import Outbox, report_check, report_hint, send_waiting
from workshop.room.room_client import RoomClient

Workshop = Callable[..., subprocess.CompletedProcess[str]]

SECRETS = ("/home/ada/secret.py", "my_password", "Zebrafish", "loss = model(x)")


@pytest.fixture
def open_here(tmp_path: Path) -> Iterator[Callable[..., RunningRoom]]:
    """Open a room in a folder of its own, as often as it is asked, with the same database."""
    folder = tmp_path / "instructor"
    folder.mkdir()
    with ExitStack() as stack:

        def open_one(**served_at: Any) -> RunningRoom:
            room = in_thread(folder, **served_at)
            stack.callback(room.end)
            return room

        yield open_one


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path)


def join(workshop: Workshop, room: RunningRoom, name: str = "Ada") -> str:
    done = workshop("join", room.address, room.code, "--name", name)
    assert done.returncode == 0, done.stderr
    return done.stdout


def a_check(outcome: Outcome = Outcome.DONE, *reasons: Reason) -> KeptCheck:
    phases = {"data wait": 1.0}
    speed = Speed("part1", "train.py", 1.0, 3.0, 3.0, 2.5, 3.5, 5, 2.0, phases, phases, None, 4.0)
    verdict = Verdict("part3", outcome, reasons, speed if outcome is Outcome.DONE else None)
    return of_verdict(verdict, Path("/home/ada/secret.py"), b"secret", 12.0)


def test_nothing_is_sent_without_having_joined(open_here: Callable[..., RunningRoom], state: State) -> None:
    room = open_here()
    assert report_check(state, a_check()) == ""
    assert report_hint(state, "part3") == ""
    assert room.results() == []
    assert not Outbox(state).folder.exists()


def test_join_says_what_is_sent_and_keeps_its_secret(
    open_here: Callable[..., RunningRoom], workshop: Workshop, state: State
) -> None:
    room = open_here()
    said = join(workshop, room)
    assert "You are Ada in the room at" in said
    assert "Never your code" in said
    assert "workshop leave" in said
    assert stat.S_IMODE(os.stat(state.path.with_name("room.json")).st_mode) == 0o600
    again = workshop("join", room.address, room.code, "--name", "Bob")
    assert (again.returncode, "first type: workshop leave" in again.stderr) == (2, True)


def test_a_check_and_a_hint_are_sent(open_here: Callable[..., RunningRoom], workshop: Workshop, state: State) -> None:
    room = open_here()
    join(workshop, room)
    state.put(2, "parts", "part3", "hints")
    assert report_check(state, a_check()) == "sent to the room"
    assert report_hint(state, "part3") == "sent to the room"
    done = a_check()
    assert done.speed
    slower = replace(done, speed=replace(done.speed, ratio=0.8, low=0.7, high=0.9))
    assert report_check(state, slower) == "sent to the room"
    half = replace(a_check(Outcome.NOT_YET), state=HALF_DONE)
    assert report_check(state, half) == "sent to the room"
    check, hint, of_slower, of_half = room.results()
    assert of_half["outcome"] == HALF_DONE
    assert (check["outcome"], check["ratio"], check["low"], check["high"]) == ("done", 3.0, 2.5, 3.5)
    assert (of_slower["ratio"], of_slower["low"], of_slower["high"]) == (0.8, 0.7, 0.9)
    assert (check["solution_ratio"], check["hints"], hint["kind"]) == (4.0, 2, "hint")
    assert "cores" in check["machine"]


def test_check_is_sent_by_the_command(
    open_here: Callable[..., RunningRoom], workshop: Workshop, project: Path, data: Path, tmp_path: Path
) -> None:
    room = open_here()
    join(workshop, room)
    shutil.copy(project / "train.py", tmp_path)
    said = workshop("check", "part3", "--data", data, "--device", "cpu", "--json")
    assert "sent to the room" in said.stderr
    [sent] = room.results()
    verdict = json.loads(said.stdout)
    assert (sent["kind"], sent["part"], sent["outcome"]) == ("check", verdict["subject"], verdict["outcome"])
    assert room.board()["people"][0]["parts"]["part3"]["checks"] == 1
    assert send_waiting(State(tmp_path)).sent == 0


def test_hint_is_sent_by_the_command(open_here: Callable[..., RunningRoom], workshop: Workshop) -> None:
    room = open_here()
    join(workshop, room)
    assert "sent to the room" in workshop("hint", "part3").stderr
    assert [each["part"] for each in room.results()] == ["part3"]


def test_neither_code_nor_paths_are_sent(tmp_path: Path, state: State, workshop: Workshop) -> None:
    """What arrives is looked at byte for byte."""
    arrived: list[bytes] = []

    class Recorder(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.append(self.requestline.encode() + self.rfile.read(int(self.headers["Content-Length"])))
            joined = {"participant": "0" * 32, "token": "t", "name": "Ada"}
            content = json.dumps(joined if "join" in self.path else {}).encode()
            self.send_response(201)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert workshop("join", address, "CODE", "--name", "Ada").returncode == 0
        crashed = VerdictReason.CRASHED(script=SECRETS[0], error=f"{SECRETS[0]}, line 3: {SECRETS[3]}")
        setting = OptimizerReason.OTHER_SETTING(SECRETS[1], candidate=SECRETS[3], original=SECRETS[2], where="")
        for reason in (crashed, setting):
            assert report_check(state, a_check(Outcome.BROKEN, reason)) == "sent to the room"
        server.shutdown()
    assert len(arrived) == 3
    sent = b"".join(arrived).decode()
    assert not [secret for secret in (*SECRETS, "secret", str(tmp_path), os.uname().nodename) if secret in sent]
    assert "crashed" in sent


def test_what_was_offline_goes_out_once_when_the_room_is_back(
    open_here: Callable[..., RunningRoom], workshop: Workshop, state: State
) -> None:
    room = open_here()
    join(workshop, room)
    room.end()
    for _ in range(3):
        line = report_check(state, a_check())
    assert re.fullmatch(r"the room: no answer .* \(.*\); 3 results wait to be sent, with the next command", line), line
    back = open_here(port=int(room.address.rpartition(":")[2]))
    assert "3 results sent to the room" in workshop("list").stderr
    assert len(back.results()) == 3
    assert send_waiting(state).sent == 0


def test_a_result_whose_acknowledgement_was_lost_is_kept_once(
    open_here: Callable[..., RunningRoom], workshop: Workshop, state: State
) -> None:
    room = open_here()
    join(workshop, room)
    room.end()
    report_check(state, a_check())
    [waiting] = Outbox(state).waiting()
    back = open_here(port=int(room.address.rpartition(":")[2]))
    assert send_waiting(state).sent == 1
    Outbox(state).put(waiting)  # as if the answer had not come through
    assert send_waiting(state).sent == 1
    assert len(back.results()) == 1
    assert Outbox(state).waiting() == []


def test_a_room_that_is_silent_delays_a_check_by_two_seconds(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the connection itself would wait longer, though it is told not to."""
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(reporting, "RoomClient", lambda *about: asked.append(about) or RoomClient(*about[:2], 20.0))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        path = state.path.with_name("room.json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"address": address, "participant": "0" * 32, "token": "t", "name": "Ada"}))
        waits = "the room: no answer within 2 s; 1 result waits to be sent, with the next command"
        assert report_check(state, a_check()) == waits
        assert asked == [(address, "", 2.0)]


def test_on_a_full_disk_a_result_is_sent_at_once_and_nothing_breaks(
    open_here: Callable[..., RunningRoom], workshop: Workshop, tmp_path: Path
) -> None:
    room = open_here()
    join(workshop, room)
    code = """
import resource, signal
from pathlib import Path
from room.test_reporting import a_check
from workshop.course.state import State
from workshop.room.reporting import report_check
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
for _ in range(2):
    print(report_check(State(Path.cwd()), a_check()), flush=True)
    input()
"""
    environment = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[1]}:{Path(__file__).parents[2]}"}

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment, **pipes) as reporting:
        assert reporting.stdin
        assert reporting.stdout
        assert reporting.stdout.readline() == "sent to the room\n"
        assert len(room.results()) == 1
        room.end()
        reporting.stdin.write("\n\n")
        reporting.stdin.close()
        assert "this result cannot be kept for later" in reporting.stdout.readline()


def test_over_tls_the_certificate_is_checked(
    open_here: Callable[..., RunningRoom], workshop: Workshop, state: State, tmp_path: Path
) -> None:
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make a certificate")
    pem = tmp_path / "room.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *names]
    subprocess.run([*command, "-keyout", pem.with_suffix(".key"), "-out", pem], check=True, capture_output=True)
    room = open_here(certificate=pem, private_key=pem.with_suffix(".key"))
    assert room.address.startswith("https://127.0.0.1:")
    refused = workshop("join", room.address, room.code, "--name", "Ada")
    assert (refused.returncode, "certificate verify failed" in refused.stderr) == (2, True)
    assert workshop("join", room.address, room.code, "--name", "Ada", "--certificate", pem).returncode == 0
    assert report_check(state, a_check()) == "sent to the room"


def test_leave_stops_it(open_here: Callable[..., RunningRoom], workshop: Workshop, state: State) -> None:
    room = open_here()
    join(workshop, room)
    left = workshop("leave")
    assert (left.returncode, "Nothing more is sent" in left.stdout) == (0, True)
    assert room.board()["people"][0]["left"]
    assert report_check(state, a_check()) == ""
    assert room.results() == []
    assert workshop("leave").stderr == "you are in no room\n"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("ftp://x", "is no address of a room"),
        ("http://[", "is no address of a room"),
        ("http://127.0.0.1:99999", "is no address of a room"),
    ],
)
def test_a_wrong_address_is_one_line(workshop: Workshop, address: str, says: str) -> None:
    refused = workshop("join", address, "CODE", "--name", "Ada")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert says in refused.stderr


def test_no_name_is_taken_where_the_membership_cannot_be_kept(
    open_here: Callable[..., RunningRoom], workshop: Workshop, tmp_path: Path
) -> None:
    room = open_here()
    named = ["join", room.address, room.code, "--name", "Ada"]
    refused = workshop(*named, "--script", str(tmp_path / "missing/train.py"))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "cannot be kept" in refused.stderr
    assert workshop(*named).returncode == 0


def test_a_wrong_code_is_one_line(open_here: Callable[..., RunningRoom], workshop: Workshop) -> None:
    room = open_here()
    refused = workshop("join", room.address, "WRONG", "--name", "Ada")
    assert refused.stderr == f"{room.address}: this is not the code of this room: it is on the board\n"


def test_a_damaged_membership_says_what_to_do(workshop: Workshop, state: State) -> None:
    path = state.path.with_name("room.json")
    path.parent.mkdir()
    path.write_text("{")
    assert "workshop leave" in report_check(state, a_check())
    assert workshop("leave").returncode == 0
    assert not path.exists()


def test_the_fields_are_those_that_join_names() -> None:
    from workshop.room.posts import RoomReport

    known: Any = {"id", "kind", "part", "at", "hints", "outcome", "ratio", "low", "high", "solution_ratio"}
    assert set(RoomReport.__struct_fields__) == known | {"reason", "machine"}
