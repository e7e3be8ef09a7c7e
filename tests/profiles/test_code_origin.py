"""One's own code, libraries, native code."""

import pytest

from workshop.profiles import stacks
from workshop.profiles.code_origin import CodeOrigin, CodeOrigins, script_of
from workshop.profiles.stacks import Frame

RECORDING = stacks.parse(["<module> (train.py:9);main (train.py:5) 3\n", "_bootstrap (threading.py:1) 1\n"])


OWN = r"train.py models/net.py /home/me/project/data.py C:\Users\me\project\data.py notebook.ipynb"
LIBRARY = r"""
torch/nn/modules/module.py threading.py multiprocessing/popen_fork.py /usr/lib/python3/dist-packages/nobody.py
/opt/env/lib/python3.12/site-packages/nobody/knows.py C:\Python312\Lib\site-packages\nobody\knows.py
"""
NATIVE = "libtorch_cpu.so /usr/lib/x86_64-linux-gnu/libc.so.6"


@pytest.mark.parametrize(
    ("origin", "paths"),
    [
        (CodeOrigin.OWN, OWN.split()),
        (CodeOrigin.LIBRARY, [*LIBRARY.split(), "<frozen importlib._bootstrap>"]),
        (CodeOrigin.NATIVE, [*NATIVE.split(), ""]),
    ],
)
def test_whose_code_it_is(origin: CodeOrigin, paths: list[str]) -> None:
    origin_of = CodeOrigins(RECORDING)
    assert {path: origin_of(Frame("f", path, 1)) for path in paths} == dict.fromkeys(paths, origin)


def test_own_is_what_was_run_and_what_one_says() -> None:
    torch = Frame("f", "torch/nn/modules/module.py", 1)
    assert CodeOrigins(RECORDING, "torch").is_own(torch)
    run = stacks.parse(["<module> (/opt/env/lib/python3.12/site-packages/tool/cli.py:9) 3\n"])
    assert CodeOrigins(run).is_own(Frame("main", "/opt/env/lib/python3.12/site-packages/tool/cli.py", 3))


def test_the_script_is_the_one_that_a_launcher_runs() -> None:
    launched = "<module> (torchrun:8);run (torch/distributed/run.py:9);<module> (lattice.py:3);main (lattice.py:1) 5\n"
    assert script_of(stacks.parse([launched, "<module> (train.py:9);main (train.py:5) 3\n"])) == "lattice.py"
    assert script_of(stacks.parse(["_bootstrap (threading.py:1) 1\n"])) == ""
