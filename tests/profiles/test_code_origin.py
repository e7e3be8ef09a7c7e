"""One's own code, libraries, native code."""

from pathlib import Path

import pytest

import workshop
from workshop.profiles import stacks
from workshop.profiles.code_origin import CodeOrigin, CodeOrigins, script_of
from workshop.profiles.stacks import Frame

RECORDING = stacks.parse(["<module> (train.py:9);main (train.py:5) 3\n", "_bootstrap (threading.py:1) 1\n"])


OWN = r"""
train.py models/net.py /home/me/project/data.py C:\Users\me\project\data.py notebook.ipynb
/home/me/minGPT/mingpt/trainer.py /tmp/ipykernel_7/123.py <ipython-input-3-0a1b2c> /home/me/ab/cache.py
workshop/bad_node.py /opt/env/lib/python3.12/site-packages/workshop/bad_node.py
"""
HASH = "2x4qmhjztpvybe3wlfcndgkrsau6i7o5x4qmhjztpvybe3wlfcnd"
LIBRARY = r"""
sitecustomize.py /home/you/workshop/probe/inject/sitecustomize.py
torch/nn/modules/module.py threading.py multiprocessing/popen_fork.py /usr/lib/python3/dist-packages/nobody.py
<string> <frozen> <eval_with_key>.3 /tmp/torch_compile_debug/run_1/output_code.py /tmp/a/_remote_module_x.py
/opt/env/lib/python3.12/site-packages/nobody/knows.py C:\Python312\Lib\site-packages\nobody\knows.py
"""
NATIVE = "libtorch_cpu.so /usr/lib/x86_64-linux-gnu/libc.so.6"


@pytest.mark.parametrize(
    ("origin", "paths"),
    [
        (CodeOrigin.USER, OWN.split()),
        (CodeOrigin.LIBRARY, LIBRARY.split()),
        (CodeOrigin.LIBRARY, [f"/tmp/torchinductor_me/2x/c{HASH}.py", f"/scratch/cache/2x/c{HASH}.py"]),
        (
            CodeOrigin.LIBRARY,
            [str(Path(workshop.__file__).with_name("pets") / "dataset.py"), "workshop/probe/hooks.py"],
        ),
        (CodeOrigin.NATIVE, [*NATIVE.split(), ""]),
    ],
)
def test_whose_code_it_is(origin: CodeOrigin, paths: list[str]) -> None:
    origin_of = CodeOrigins(RECORDING)
    assert {path: origin_of(Frame("f", path, 1)) for path in paths} == dict.fromkeys(paths, origin)


def test_own_is_what_was_run_and_what_one_says() -> None:
    torch = Frame("f", "torch/nn/modules/module.py", 1)
    assert CodeOrigins(RECORDING, "torch").is_user_code(torch)
    run = stacks.parse(["<module> (/opt/env/lib/python3.12/site-packages/tool/cli.py:9) 3\n"])
    assert CodeOrigins(run).is_user_code(Frame("main", "/opt/env/lib/python3.12/site-packages/tool/cli.py", 3))


def test_a_script_of_a_library_is_not_ones_own_beside_the_own_script() -> None:
    """torch.compile starts processes that compile, each with a script of torch."""
    path = "torch/_inductor/compile_worker/__main__.py"
    found = stacks.parse([f"<module> ({path}:80);main ({path}:7) 9\n", "<module> (train.py:9);main (train.py:5) 3\n"])
    assert script_of(found) == "train.py"
    assert not CodeOrigins(found).is_user_code(found.stacks[0].frames[-1])


def test_the_script_is_the_one_that_a_launcher_runs() -> None:
    launched = "<module> (torchrun:8);run (torch/distributed/run.py:9);<module> (lattice.py:3);main (lattice.py:1) 5\n"
    assert script_of(stacks.parse([launched, "<module> (train.py:9);main (train.py:5) 3\n"])) == "lattice.py"
    assert script_of(stacks.parse(["_bootstrap (threading.py:1) 1\n"])) == ""
