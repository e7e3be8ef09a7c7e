"""One's own code, libraries, native code."""

import pytest

from workshop.profiles import stacks
from workshop.profiles.code_origin import CodeOrigin, CodeOrigins, script_of
from workshop.profiles.stacks import Frame

RECORDING = stacks.parse(["<module> (train.py:9);main (train.py:5) 3\n", "_bootstrap (threading.py:1) 1\n"])


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("train.py", CodeOrigin.OWN),
        ("models/net.py", CodeOrigin.OWN),
        ("/home/me/project/data.py", CodeOrigin.OWN),
        (r"C:\Users\me\project\data.py", CodeOrigin.OWN),
        ("notebook.ipynb", CodeOrigin.OWN),
        ("torch/nn/modules/module.py", CodeOrigin.LIBRARY),
        ("threading.py", CodeOrigin.LIBRARY),
        ("multiprocessing/popen_fork.py", CodeOrigin.LIBRARY),
        ("<frozen importlib._bootstrap>", CodeOrigin.LIBRARY),
        ("/opt/env/lib/python3.12/site-packages/nobody/knows.py", CodeOrigin.LIBRARY),
        (r"C:\Python312\Lib\site-packages\nobody\knows.py", CodeOrigin.LIBRARY),
        ("/usr/lib/python3/dist-packages/nobody.py", CodeOrigin.LIBRARY),
        ("libtorch_cpu.so", CodeOrigin.NATIVE),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", CodeOrigin.NATIVE),
        ("", CodeOrigin.NATIVE),
    ],
)
def test_whose_code_it_is(path: str, origin: CodeOrigin) -> None:
    assert CodeOrigins(RECORDING)(Frame("f", path, 1)) is origin


def test_own_is_what_was_run_and_what_one_says() -> None:
    torch = Frame("f", "torch/nn/modules/module.py", 1)
    assert CodeOrigins(RECORDING, "torch").is_own(torch)
    run = stacks.parse(["<module> (/opt/env/lib/python3.12/site-packages/tool/cli.py:9) 3\n"])
    assert CodeOrigins(run).is_own(Frame("main", "/opt/env/lib/python3.12/site-packages/tool/cli.py", 3))


def test_the_script_is_the_one_that_a_launcher_runs() -> None:
    launched = "<module> (torchrun:8);run (torch/distributed/run.py:9);<module> (lattice.py:3);main (lattice.py:1) 5\n"
    assert script_of(stacks.parse([launched, "<module> (train.py:9);main (train.py:5) 3\n"])) == "lattice.py"
    assert script_of(stacks.parse(["_bootstrap (threading.py:1) 1\n"])) == ""
