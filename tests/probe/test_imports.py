"""A module is waited for until it runs, whoever asks for it before."""

import subprocess
import sys
from pathlib import Path

import pytest

ASKED_FIRST = """
import importlib, importlib.util, sys
from workshop.probe.imports import after_import
said = []
after_import("waited_for", lambda module: said.append(("first", module.VALUE)))
after_import("waited_for", lambda module: said.append(("second", module.VALUE)))
{ask}
assert said == [], said
import waited_for
assert sorted(said) == [("first", 3), ("second", 3)], said
importlib.reload(waited_for)
assert len(said) == 2, said
after_import("waited_for", lambda module: said.append(("late", module.VALUE)))
assert said[-1] == ("late", 3)
"""

LAZY = """
spec = importlib.util.find_spec("waited_for")
spec.loader = importlib.util.LazyLoader(spec.loader)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""


@pytest.mark.parametrize(
    "ask",
    ["", "assert importlib.util.find_spec('waited_for')", "importlib.util.find_spec('waited_for')\n" * 3, LAZY],
    ids="nobody once often lazily".split(),
)
def test_a_module_is_there_when_it_runs(ask: str, tmp_path: Path) -> None:
    (tmp_path / "waited_for.py").write_text("VALUE = 3")
    script = tmp_path / "script.py"
    script.write_text(ASKED_FIRST.format(ask=ask))
    subprocess.run([sys.executable, script], check=True, timeout=60)
