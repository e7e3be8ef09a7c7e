"""A room in a thread of the tests, or in a process of its own, as an instructor opens it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import uvicorn

from workshop.parts import all_parts
from workshop.room import serving
from workshop.room.open_room import OpenRoom


@dataclass
class RunningRoom:
    address: str
    code: str
    key: str
    end: Callable[[], None]

    def ask(
        self, method: str, path: str, body: bytes | object = None, secret: str = "", **headers: str
    ) -> tuple[int, Any]:
        """Return the status, and the answer: as an object, or as bytes if it is no JSON."""
        connection = http.client.HTTPConnection(self.address.removeprefix("http://"), timeout=20)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, content, named | ({"Authorization": f"Bearer {secret}"} if secret else {}))
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, json.loads(answer) if "json" in response.headers.get("Content-Type", "") else answer

    def join(self, name: str) -> str:
        """Return the token of a new participant."""
        status, answer = self.ask("POST", "/api/join", {"code": self.code, "name": name})
        assert status == 201, answer
        return str(answer["token"])

    def board(self) -> Any:
        return self.ask("GET", "/api/board")[1]

    def results(self) -> list[dict[str, Any]]:
        status, answer = self.ask("GET", "/api/results", secret=self.key)
        assert status == 200
        return list(answer["results"])


OpenOne = Callable[..., RunningRoom]


def in_thread(folder: Path, share: Path | None = None, **served_at: Any) -> RunningRoom:
    """Open a room in a folder, as `workshop room` does; a room in the same folder goes on with its database."""
    at = serving.ServedAt(**{"host": "127.0.0.1", "port": 0} | served_at)
    made: list[uvicorn.Server] = []
    opened: Queue[OpenRoom] = Queue()

    def make(config: uvicorn.Config) -> uvicorn.Server:
        made.append(uvicorn.Server(config))
        return made[0]

    titles = {part.name: part.title for part in all_parts()}
    known = (str(folder / "room.sqlite"), share, at, titles, lambda room, _: opened.put(room), make)
    thread = threading.Thread(target=serving.serve, args=known, daemon=True)
    thread.start()
    room = opened.get(timeout=20)

    def end() -> None:
        while thread.is_alive():
            for server in made:
                server.should_exit = server.force_exit = True
            thread.join(0.02)

    return RunningRoom(room.address, room.code, room.instructor_link.partition("#")[2], end)


def in_process(folder: Path, *arguments: str | Path) -> RunningRoom:
    """Open a room by the command; its end is a kill."""
    command = [sys.executable, "-m", "workshop", "room", "--host", "127.0.0.1", *map(str, arguments)]
    command += [] if "--port" in arguments else ["--port", "0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=os.environ)
    printed = ""
    assert process.stdout
    for line in process.stdout:
        printed += line
        if "Ctrl-C ends it" in line:
            break
    found = re.search(r"workshop join (\S+) (\w+) .*instructor#(\S+)", printed, re.DOTALL)
    assert found, printed

    def end() -> None:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)

    return RunningRoom(*found.groups(), end)


@pytest.fixture
def open_room(tmp_path: Path) -> Iterator[OpenOne]:
    """Open rooms in the test's own folder: in a thread, or with `by=in_process` by the command."""
    with ExitStack() as stack:

        def open_one(*arguments: Any, by: OpenOne = in_thread, **served_at: Any) -> RunningRoom:
            room = by(tmp_path, *arguments, **served_at)
            stack.callback(room.end)
            return room

        yield open_one


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRoom]:
    """One room for all tests of a file."""
    running = in_thread(tmp_path_factory.mktemp("room"))
    yield running
    running.end()
