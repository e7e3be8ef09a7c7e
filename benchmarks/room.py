"""How the room bears a class: 200 participants send 20 results each, from 30 processes, on this machine.

    python benchmarks/room.py
    python benchmarks/room.py --kill 20                  the room is killed so often, and started again
    python benchmarks/room.py --database postgresql://USER@HOST/NAME

It prints what was lost or kept twice, how long answers took, how long a result took to the board, and how long the
board took to answer while thirty download a large file at once. It fails if anything was lost or kept twice.
"""

import argparse
import json
import multiprocessing
import os
import re
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine import machine

from workshop.room.posts import RoomReport
from workshop.room.room_client import RoomClient, UnreachableError

PARTICIPANTS, POSTS, PROCESSES = 200, 20, 30
OUTCOMES = ("done", "not there yet", "not the same work", "undecided", "broken")
PROBE_EVERY_S = 0.25
DOWNLOADS, FILE, FILE_BYTES = 30, "large.tar.gz", 200_000_000


class Room:
    """A room in a process of its own, which can be killed and started again at the same address."""

    def __init__(self, folder: Path, database: str) -> None:
        self._folder, self._database, self._port = folder, database, "0"
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "workshop", "room", "share", "--host", "127.0.0.1", "--port", self._port]
        path = {"PYTHONPATH": str(Path(__file__).parents[1])}
        self.process = subprocess.Popen(
            [*command, "--database", self._database],
            cwd=self._folder,
            env=os.environ | path,
            stdout=subprocess.PIPE,
            text=True,
        )
        printed = ""
        while "Ctrl-C ends it" not in printed:
            assert self.process.stdout
            line = self.process.stdout.readline()
            assert line, f"the room did not open: {printed}"
            printed += line
        found = re.search(r"workshop join (\S+) (\w+) .*instructor#(\S+)", printed, re.DOTALL)
        assert found
        self.address, self.code, self.key = found.groups()
        self._port = self.address.rpartition(":")[2]

    def kill(self) -> None:
        """Kill it as it stands, and start it again."""
        self.process.kill()
        self.process.wait()
        self._start()

    def end(self) -> None:
        """End it in good order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def get(self, path: str) -> Any:
        """Return what it answers, with the instructor's key."""
        asked = urllib.request.Request(self.address + path, headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return json.load(answer)


@dataclass
class Acknowledged:
    """What a process has had acknowledged."""

    results: list[tuple[str, str]]
    """Participant and id of each."""
    seconds: list[float]
    """How long each answer took; of what was tried again, the last try."""
    tries: int


def participate(address: str, code: str, count: int) -> Acknowledged:
    """Join `count` times, and send the results of all, in turn; what is not answered is sent again."""
    client, done = RoomClient(address, silence_s=10.0), Acknowledged([], [], 0)
    members = [_patiently(lambda: client.join(code, f"P {secrets.token_hex(8)}"), done)[0] for _ in range(count)]
    for number in range(POSTS):
        for member in members:
            outcome = OUTCOMES[number % len(OUTCOMES)]
            report = RoomReport(secrets.token_hex(16), "check", f"part{1 + number % 11}", time.time(), 0, outcome)
            _, took_s = _patiently(lambda report=report, member=member: client.send(report, member.token), done)
            done.results.append((member.participant, report.id))
            done.seconds.append(took_s)
    return done


def _patiently(call: Any, done: Acknowledged) -> tuple[Any, float]:
    while True:
        done.tries += 1
        began_s = time.perf_counter()
        with suppress(UnreachableError):
            return call(), time.perf_counter() - began_s
        time.sleep(0.1)


def board_lags(room: Room, over: threading.Event) -> list[float]:
    """Return how long after a result was acknowledged the board showed it, again and again."""
    lags: list[float] = []
    client = RoomClient(room.address, silence_s=10.0)
    name, sent = f"Probe {secrets.token_hex(4)}", 0
    member = client.join(room.code, name)
    while not over.wait(PROBE_EVERY_S):
        with suppress(UnreachableError, OSError):
            client.send(RoomReport(secrets.token_hex(16), "check", "part1", time.time(), 0, "broken"), member.token)
            sent, acknowledged_s = sent + 1, time.perf_counter()
            while _checks_on_board(room, name) < sent:
                time.sleep(0.01)
            lags.append(time.perf_counter() - acknowledged_s)
    return lags


def _checks_on_board(room: Room, name: str) -> int:
    [person] = [each for each in room.get("/api/board")["people"] if each["name"] == name]
    return int(person["parts"]["part1"]["checks"])


def run(room: Room, kills: int) -> tuple[list[Acknowledged], list[float], float]:
    """Return what was acknowledged, the lags of the board, and the seconds that all of it took."""
    began_s, over, lags = time.perf_counter(), threading.Event(), []
    probe = threading.Thread(target=lambda: lags.extend(board_lags(room, over)))
    counts = [PARTICIPANTS // PROCESSES + (number < PARTICIPANTS % PROCESSES) for number in range(PROCESSES)]
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("fork")) as pool:
        futures = [pool.submit(participate, room.address, room.code, count) for count in counts]
        if not kills:
            probe.start()
        for _ in range(kills):
            time.sleep(secrets.randbelow(400) / 1000)
            room.kill()
        found = [future.result() for future in futures]
    took_s = time.perf_counter() - began_s
    over.set()
    if not kills:
        probe.join()
    return found, lags, took_s


def board_while_downloading(room: Room) -> tuple[list[float], float]:
    """Return how long the board took to answer while thirty downloaded, and the seconds all of it took."""
    while FILE not in urllib.request.urlopen(f"{room.address}/files/SHA256SUMS", timeout=20).read().decode():
        time.sleep(0.1)
    began_s, answers = time.perf_counter(), []
    with ProcessPoolExecutor(DOWNLOADS, multiprocessing.get_context("fork")) as pool:
        downloads = [pool.submit(_download, f"{room.address}/files/{FILE}") for _ in range(DOWNLOADS)]
        while not all(each.done() for each in downloads):
            asked_s = time.perf_counter()
            room.get("/api/board")
            answers.append(time.perf_counter() - asked_s)
            time.sleep(0.02)
    assert [each.result() for each in downloads] == [FILE_BYTES] * DOWNLOADS
    return answers, time.perf_counter() - began_s


def _download(address: str) -> int:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return sum(len(piece) for piece in iter(lambda: answer.read(1 << 20), b""))


def main() -> None:
    """Run it, and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", default="room.sqlite", help="as that of workshop room")
    parser.add_argument("--kill", type=int, default=0, help="how often the room is killed meanwhile")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        share = Path(folder, "share")
        share.mkdir()
        with (share / FILE).open("wb") as file:
            file.truncate(FILE_BYTES)
        room = Room(Path(folder), options.database)
        found, lags, took_s = run(room, options.kill)
        answers, downloaded_s = board_while_downloading(room)
        kept = Counter((each["participant"], each["id"]) for each in room.get("/api/results")["results"])
        room.end()
    acknowledged = [result for each in found for result in each.results]
    seconds = sorted(second for each in found for second in each.seconds)
    lost = sum(result not in kept for result in acknowledged)
    twice = sum(count > 1 for count in kept.values()) + len(acknowledged) - len(set(acknowledged))
    print(machine())
    print(f"{len(acknowledged)} results acknowledged in {took_s:.1f} s, in {sum(each.tries for each in found)} tries")
    print(f"lost: {lost}; kept twice: {twice}; the room was killed {options.kill} times")
    late = f"at the 99th percentile {seconds[int(0.99 * len(seconds))]:.3f} s, at most {seconds[-1]:.3f} s"
    print(f"an answer took {statistics.median(seconds):.3f} s, {late}")
    if lags:
        at_most = f"at most {max(lags):.3f} s ({len(lags)} times)"
        print(f"on the board after {statistics.median(lags):.3f} s, {at_most}; pages ask every second")
    late = f"at the 99th percentile {sorted(answers)[int(0.99 * len(answers))]:.3f} s, at most {max(answers):.3f} s"
    rate = DOWNLOADS * FILE_BYTES / 1e6 / downloaded_s
    print(f"while {DOWNLOADS} downloaded, at {rate:.0f} MB/s in all, the board answered in ", end="")
    print(f"{statistics.median(answers):.3f} s, {late} ({len(answers)} times)")
    sys.exit(lost + twice > 0 or len(acknowledged) != PARTICIPANTS * POSTS)


if __name__ == "__main__":
    main()
