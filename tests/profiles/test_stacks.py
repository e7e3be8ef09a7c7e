"""Recordings are read as py-spy writes them, whatever names and paths are in them."""

import gzip
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from made_traces import write

from workshop.errors import WorkshopError
from workshop.profiles import stacks
from workshop.profiles.stacks import Frame, Process, Recording, Stack, Thread

# What Python, C++ and file systems allow. A name with brackets has them in pairs; a path may hold any.
WORDS = st.text(st.characters(categories=["L", "N"], include_characters="_"), min_size=1, max_size=8)
SPECIAL_NAMES = st.sampled_from(["<lambda>", "<locals>", "<listcomp>", "<module>"])
PYTHON_NAMES = st.lists(WORDS | SPECIAL_NAMES, min_size=1, max_size=3)
NATIVE_NAMES = st.sampled_from(
    [
        "at::native::conv2d(at::Tensor const&, long)",
        "std::function<void (int)>::operator()(int) const",
        "(anonymous namespace)::run",
        "void at::parallel_for<(anonymous namespace)::f(int)::{lambda(long, long)#1}>(long)",
        "0x00007f3a",
        "operator new[](unsigned long)",
    ]
)
PATHS = st.sampled_from(
    [
        "train.py",
        "torch/nn/modules/module.py",
        "<frozen importlib._bootstrap>",
        "<string>",
        "C:\\Users\\Jo Doe\\My (new) project\\train.py",
        "/home/jo/a b/c;d/e.py",
        "/home/jo/x:y/é中/train.py",
        "/home/jo/a(b/c.py",
        "/home/jo/a) b/c.py",
        "/home/jo/copy (2)/train.py",
        "libtorch_cpu.so",
    ]
)
NAMES = PYTHON_NAMES.map(".".join) | NATIVE_NAMES
FRAMES = st.builds(Frame, NAMES, PATHS, st.none() | st.integers(1, 99_999))
COMMANDS = st.sampled_from(
    [
        "",
        "python train.py configs/example_config.py",
        "python -B -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=6, pipe_handle=18)",
        'python -c import time\nx = "a";print("b;c") 5\ndef f(): pass\n',
        'bash -c "a"; b (c:3)',
        "python -c x = 12\n\nprint(x)",
    ]
)
PROCESSES = st.lists(st.builds(Process, st.integers(1, 4_194_304), COMMANDS), max_size=3).map(tuple)
THREADS = st.builds(
    Thread,
    st.integers(1, 10**6).map(str) | st.just("0x7F0A"),
    st.sampled_from(["", "MainThread", "my; thread é", "Thread-1 (_serve)", "a: b"]),
)


@st.composite
def any_stack(draw: st.DrawFn) -> Stack:
    frames = tuple(draw(st.lists(FRAMES, max_size=6)))
    processes, thread = draw(PROCESSES), draw(st.none() | THREADS)
    assume(frames or processes or thread)
    return Stack(frames, draw(st.integers(1, 10**9)), processes, thread)


@settings(max_examples=60)
@given(st.lists(any_stack(), min_size=1, max_size=12))
def test_what_py_spy_prints_is_read_back(recorded: list[Stack]) -> None:
    found = stacks.parse("".join(f"{stack}\n" for stack in recorded).splitlines(keepends=True))
    assert found.stacks == recorded
    assert found.notes == []
    assert found.samples == sum(stack.samples for stack in recorded)


def read(tmp_path: Path, content: str | bytes) -> Recording:
    return stacks.read(write(tmp_path / "profile.raw", content))


WHOLE = "main (train.py:3);f (a.py:4) 12\nmain (train.py:5) 3\n"


@pytest.mark.parametrize(
    "cut", ["main (train.py:3);f (a.", "main (train.py:7)", "main (train.py:7) ", 'process 12:"py']
)
def test_a_line_that_was_cut_off_is_skipped_and_said(cut: str, tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE + cut)
    assert [stack.samples for stack in found.stacks] == [12, 3]
    assert found.notes == [f"{tmp_path}/profile.raw: 1 line skipped that cannot be read, the first of them line 3"]


def test_a_damaged_line_in_the_middle_costs_no_other(tmp_path: Path) -> None:
    begun = 'process 7:"python train.py'
    found = read(tmp_path, f'process 7:"a";f (b.py:1) 4\n{begun}\nprocess 7:"a";f (b.py:2) 5\n{WHOLE}')
    assert [stack.samples for stack in found.stacks] == [4, 5, 12, 3]
    assert found.notes[0].endswith("1 line skipped that cannot be read, the first of them line 2")


def test_a_gzipped_one_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = "".join(f"main (train.py:{line});f{line * 7919} (a.py:4) 12\n" for line in range(1, 5000))
    packed = gzip.compress(whole.encode())
    assert len(read(tmp_path, packed).stacks) == 4999
    found = read(tmp_path, packed[: len(packed) // 2])
    assert 1000 < len(found.stacks) < 4000
    assert "cut off or damaged" in found.notes[0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty: py-spy took no sample"),
        (b"Once upon a time\nthere was a profiler 5\n", "is not a py-spy recording"),
        (b"main;foo;bar 12\n", "is not a py-spy recording"),
        (b"\x00\xff\xfe\x80" * 50, "is not a py-spy recording"),
        (b"<?xml version='1.0'?><svg>", "is not a py-spy recording: it is a page or a drawing; open it in a browser"),
        (
            b'{"$schema": "speedscope"}',
            "is not a py-spy recording: it is JSON of another kind; py-spy records with -f raw",
        ),
    ],
)
def test_what_is_no_recording(content: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(WorkshopError, match=says):
        read(tmp_path, content)


def test_windows_line_ends(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE.replace("\n", "\r\n")).samples == 15
