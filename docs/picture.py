"""Draw the picture of the README: what a real check prints in a terminal of 80 columns.

    python docs/picture.py

It needs the packages of the tests. Run it on a quiet machine, after a first check: that one also measures the solution.
"""

import io
import os
import sys
import tempfile
from pathlib import Path

import pexpect
from rich.console import Console
from rich.text import Text

from workshop.parts import find_part

HERE = Path(__file__).parent
COLUMNS = 80


def main() -> None:
    """Check a script with two workers, twice, and draw the second time."""
    with tempfile.TemporaryDirectory() as folder:
        source = find_part("part3").untouched.read_text()
        Path(folder, "train.py").write_text(source.replace("shuffle=True)", "shuffle=True, num_workers=2)"))
        check(folder)
        said = check(folder)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ workshop check part3", "bold"))
    console.print(Text.from_ansi(said), soft_wrap=True)
    (HERE / "check.svg").write_text(console.export_svg(title="with two workers"))
    print(f"{HERE / 'check.svg'} is drawn")


def check(folder: str) -> str:
    """What `workshop check part3` says there."""
    environment = {**os.environ, "WORKSHOP_OFFLINE": "1", "TERM": "xterm-256color"}
    command = ["-m", "workshop", "check", "part3", "--device", "cpu", "--data", "datasets"]
    child = pexpect.spawn(
        sys.executable, command, cwd=folder, env=environment, dimensions=(50, COLUMNS), timeout=600, encoding="utf-8"
    )
    child.expect(pexpect.EOF)
    return child.before.replace("\r\n", "\n").split("target: ")[-1].partition("\n")[2]


if __name__ == "__main__":
    main()
