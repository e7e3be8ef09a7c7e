"""What a file is by its beginning, and what is said to whoever named one of another kind."""

import gzip
import pickle
from pathlib import Path

import pytest
from line_profiler import LineStats

from workshop.errors import WorkshopError
from workshop.file_kind import kind_of, require_script, wrong_kind

FILES = {
    "train.py": (b"[1, 2", "a Python script"),
    "empty.json": (b"", "empty"),
    "trace.json": (b'{"schemaVersion": 1, "traceEvents": []}', "a trace"),
    "trace.json.gz": (gzip.compress(b'{"schemaVersion": 1, "traceEvents": []}'), "a trace"),
    "events.json": (b'[{"name": "add", "ph": "X", "ts": 1.0}]', "a trace"),
    "timeline.json.gz": (gzip.compress(b"[[1700, 1800], [[0, 512], [0, 0]]]"), "a memory timeline of torch"),
    "timeline.raw.json.gz": (gzip.compress(b"[[1700, 0, 512, 3]]"), "a memory timeline of torch"),
    "timeline.html": (
        b'<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>',
        "a memory timeline of torch",
    ),
    "run.lprof": (pickle.dumps(LineStats({}, 1e-6)), "a line profile"),
    "snapshot.pt": (pickle.dumps({"segments": [], "device_traces": []}), "a memory snapshot of torch"),
    "weights.pkl": (pickle.dumps([1, 2]), "a pickle"),
    "weights.pt": (b"PK\x03\x04\0\0", "a file of torch.save, or an archive"),
    "notes.json": (b'{"cells": [], "nbformat": 4}', "a notebook"),
    "profile.raw": (b'process 7:"python train.py";main (train.py:61) 42\n', "a recording of py-spy"),
    "report.sqlite": (b"SQLite format 3\0", "an SQLite database"),
    "report.nsys-rep": (b"\x01\x02", "a report of nsys"),
    "x.speedscope.json": (
        b'{"$schema":"https://www.speedscope.app/file-format-schema.json"}',
        "a profile for speedscope",
    ),
    "page.html": (b"<!DOCTYPE html>\n<html>", "a page or a drawing"),
    "job": (b"#!/usr/bin/env bash\npython train.py\n", "a shell script"),
    "settings.yaml": (b"batch_size: 3\n", "a text file"),
    "settings.json": (b'{"batch_size": 3}', "JSON of another kind"),
    "bytes": (b"a\0b", "a binary file"),
}


@pytest.mark.parametrize("name", FILES)
def test_each_kind_is_known_and_only_a_script_is_run(name: str, tmp_path: Path) -> None:
    path, (content, kind) = tmp_path / name, FILES[name]
    path.write_bytes(content)
    found = kind_of(path)
    assert found is not None
    assert found.name == kind
    if name == "train.py":
        require_script(path)
    else:
        with pytest.raises(WorkshopError, match=f"{name} is not a Python script: it is {kind}; "):
            require_script(path)


@pytest.mark.parametrize(
    ("content", "is_script"),
    [(b"#!/usr/bin/env python\nprint(1)\n", True), (b"print(1)\n", True), (b"Dear diary\n", False)],
)
def test_a_name_without_an_end_is_a_script_if_it_reads_as_one(content: bytes, is_script: bool, tmp_path: Path) -> None:
    path = tmp_path / "train"
    path.write_bytes(content)
    assert kind_of(path) is None
    if is_script:
        require_script(path)
    else:
        with pytest.raises(WorkshopError, match="train is not a Python script; name one"):
            require_script(path, "name one")


def test_the_command_that_reads_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a trace.json"
    path.write_text('{"traceEvents": []}')
    says = wrong_kind(path, "not a line profile", "make one")
    assert says == f"{path} is not a line profile: it is a trace; workshop trace '{path}' reads it"
    assert wrong_kind(tmp_path / "absent", "not a trace", "make one").endswith("absent; make one")
