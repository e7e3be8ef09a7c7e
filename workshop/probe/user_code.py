"""Tells by its path whether code is the user's: the one rule for all instruments.

The user's code is whatever is not part of Python, not installed, not generated and not the workshop's. So a package
that is imported from its own folder, by `PYTHONPATH` or as an editable install, is the user's. The workshop's slow node
counts as the user's wherever it is installed, as participants are asked to find it.
"""

import importlib.machinery
import re
import site
import sys
import sysconfig
from functools import cache
from pathlib import Path

WORKSHOP = Path(__file__).parents[1]
SLOW_NODE = "workshop/bad_node.py"
START_UP = "sitecustomize.py"
"""The file by which the probe gets into each Python. Its folder is on `sys.path`, so py-spy gives its name alone."""

LIBRARY_FOLDERS = re.compile(r"(^|/)(site-packages|dist-packages|lib(64)?/python\d|Python[\d.]*/Lib|Python\.framework)")
"""The folders of the standard library and of installed packages, on any machine."""

GENERATED = re.compile(
    r"^<(?!ipython-input)|(^|/)(torchinductor_[^/]*|torch_compile_debug)/|/(\w\w)/c\3[a-z2-7]{40,}\.py$"
    r"|(^|/)_remote_module_\w+\.py$|/workshop-notebook-[^/]*/[^/]*$"
)
"""Code that has no file, such as "<string>" and "<frozen importlib._bootstrap>", what runs the cells of a notebook, and
the files that torch writes: those of torch.compile lie in any folder that TORCHINDUCTOR_CACHE_DIR names, but always as
"xy/cxy...py"."""


@cache
def is_user_code(path: str) -> bool:
    """Return whether a file of code is the user's.

    Args:
        path: the path, absolute or, as py-spy shortens it, relative to the entry of `sys.path`.
    """
    slashes = path.replace("\\", "/")
    if f"/{slashes}".endswith(f"/{SLOW_NODE}"):
        return True
    if slashes.rpartition("/")[2] == START_UP or GENERATED.search(slashes) or LIBRARY_FOLDERS.search(slashes):
        return False
    if slashes.startswith("/"):
        own_python = sysconfig.get_path("stdlib"), str(WORKSHOP)
        return not slashes.startswith(tuple(f"{folder}/" for folder in own_python))
    if slashes.startswith(("./", "../", "<")) or slashes[1:2] == ":":
        return True
    top_level = slashes.partition("/")[0].removesuffix(".py")
    is_workshop = top_level == WORKSHOP.name and (WORKSHOP.parent / slashes).is_file()
    return not (is_workshop or top_level in sys.stdlib_module_names or _is_installed(top_level))


def _is_installed(module: str) -> bool:
    """Return whether a top-level module is where pip installs them, without importing anything."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    return importlib.machinery.PathFinder.find_spec(module, [*folders]) is not None
