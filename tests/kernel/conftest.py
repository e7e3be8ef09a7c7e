"""A real kernel, as a front end has it, and a shell of IPython in the process of the tests."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import KernelManager

Bundle = dict[str, str]


@dataclass
class RanInKernel:
    """What a cell has shown: each display as it was in the end, and how it ended."""

    shown: list[Bundle] = field(default_factory=list)
    updates: int = 0
    printed: str = ""
    result: Bundle | None = None
    error: list[str] | None = None


class RealKernel:
    """Runs cells one after the other."""

    def __init__(self, folder: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder))
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=200)

    def begin(self, source: str, cell_id: str = "") -> str:
        """Send a cell, and return the number of the message."""
        message = self.client.session.msg(
            "execute_request",
            {"code": source, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False},
            metadata={"cellId": cell_id} if cell_id else {},
        )
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def run(self, source: str, cell_id: str = "") -> RanInKernel:
        """Run a cell to its end."""
        return self.end(self.begin(source, cell_id))

    def until_shown(self, text: str, number: str) -> None:
        """Wait until a cell shows a text."""
        while True:
            kind, content = self._next(number)
            assert kind != "status" or content["execution_state"] != "idle", f"it has ended without {text}"
            if text in str(content.get("data", content.get("text", ""))):
                return

    def end(self, number: str) -> RanInKernel:
        """Wait for the end of a cell."""
        ran, places = RanInKernel(), dict[str, int]()
        while True:
            kind, content = self._next(number)
            if kind == "status" and content["execution_state"] == "idle":
                return ran
            if kind == "stream":
                ran.printed += content["text"]
            elif kind == "error":
                ran.error = content["traceback"]
            elif kind == "execute_result":
                ran.result = content["data"]
            elif kind == "display_data":
                places[content["transient"].get("display_id", "")] = len(ran.shown)
                ran.shown.append(content["data"])
            elif kind == "update_display_data":
                ran.updates += 1
                if (place := places.get(content["transient"]["display_id"])) is not None:
                    ran.shown[place] = content["data"]

    def _next(self, number: str) -> tuple[str, dict[str, Any]]:
        while True:
            message = self.client.get_iopub_msg(timeout=400)
            if message["parent_header"].get("msg_id") == number:
                return message["msg_type"], message["content"]

    def close(self) -> None:
        """End the kernel."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[RealKernel]:
    """A kernel in the test's own folder, with the magics."""
    found = RealKernel(tmp_path)
    try:
        assert found.run("%load_ext workshop").error is None
        yield found
    finally:
        found.close()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell with the magics, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    made = InteractiveShell()  # type: ignore[no-untyped-call]
    made.run_cell("%load_ext workshop", store_history=True)
    yield made
    made.run_cell("%unload_ext workshop")
    made.history_manager.end_session()
