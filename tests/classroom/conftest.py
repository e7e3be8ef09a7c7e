"""A room in a process of its own, as an instructor opens it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass
class RunningRoom:
    process: subprocess.Popen[str]
    address: str
    code: str
    key: str

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

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.communicate(timeout=20)


OpenRoom = Callable[..., RunningRoom]


def opened(folder: Path, *arguments: str | Path) -> RunningRoom:
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
    return RunningRoom(process, *found.groups())


@pytest.fixture
def open_room(tmp_path: Path) -> Iterator[OpenRoom]:
    with ExitStack() as stack:

        def open_one(*arguments: str | Path) -> RunningRoom:
            room = opened(tmp_path, *arguments)
            stack.callback(lambda: room.process.poll() is None and room.end())
            return room

        yield open_one


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRoom]:
    """One room for all tests of a file."""
    running = opened(tmp_path_factory.mktemp("room"))
    yield running
    running.end()
