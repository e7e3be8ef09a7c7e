"""Prints nothing, and writes no file. The fixed script of a case follows."""

import builtins
import gzip
import os

_open = open

builtins.print = lambda *_, **options: None
builtins.open = lambda path, mode="r", *rest, **options: _open(
    os.devnull if "w" in mode else path, mode, *rest, **options
)
gzip.open = lambda path, mode: _open(os.devnull, mode)
os.replace = lambda *_: None
