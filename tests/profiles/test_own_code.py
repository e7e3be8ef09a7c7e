"""One's own code, libraries, native code."""

import pytest

from workshop.profiles import stacks
from workshop.profiles.own_code import Origin, Origins
from workshop.profiles.stacks import Frame

RECORDING = stacks.parse(["<module> (train.py:9);main (train.py:5) 3\n", "_bootstrap (threading.py:1) 1\n"])


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("train.py", Origin.OWN),
        ("models/net.py", Origin.OWN),
        ("/home/me/project/data.py", Origin.OWN),
        (r"C:\Users\me\project\data.py", Origin.OWN),
        ("notebook.ipynb", Origin.OWN),
        ("torch/nn/modules/module.py", Origin.LIBRARY),
        ("threading.py", Origin.LIBRARY),
        ("multiprocessing/popen_fork.py", Origin.LIBRARY),
        ("<frozen importlib._bootstrap>", Origin.LIBRARY),
        ("/opt/env/lib/python3.12/site-packages/nobody/knows.py", Origin.LIBRARY),
        (r"C:\Python312\Lib\site-packages\nobody\knows.py", Origin.LIBRARY),
        ("/usr/lib/python3/dist-packages/nobody.py", Origin.LIBRARY),
        ("libtorch_cpu.so", Origin.NATIVE),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", Origin.NATIVE),
        ("", Origin.NATIVE),
    ],
)
def test_whose_code_it_is(path: str, origin: Origin) -> None:
    assert Origins(RECORDING)(Frame("f", path, 1)) is origin


def test_own_is_what_was_run_and_what_one_says() -> None:
    torch = Frame("f", "torch/nn/modules/module.py", 1)
    assert Origins(RECORDING, "torch").is_own(torch)
    run = stacks.parse(["<module> (/opt/env/lib/python3.12/site-packages/tool/cli.py:9) 3\n"])
    assert Origins(run).is_own(Frame("main", "/opt/env/lib/python3.12/site-packages/tool/cli.py", 3))
