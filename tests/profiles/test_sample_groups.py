"""Who took the samples: of recordings of one file and of many."""

from pathlib import Path

import pytest

from workshop.errors import WorkshopError
from workshop.profiles import recorded_runs, sample_groups, stacks
from workshop.profiles.stacks import Recording

TORCHRUN = """\
process 1:"/usr/bin/python /usr/bin/torchrun --nproc_per_node=2 train.py";<module> (torchrun:8) 5
process 1:"/usr/bin/python /usr/bin/torchrun --nproc_per_node=2 train.py";process 9:"python -u train.py";main (train.py:3) 7
process 1:"/usr/bin/python /usr/bin/torchrun --nproc_per_node=2 train.py";process 4:"python -u train.py";main (train.py:3) 2
process 1:"/usr/bin/python /usr/bin/torchrun --nproc_per_node=2 train.py";process 9:"python -u train.py";process 12:"";_worker_loop (torch/utils/data/_utils/worker.py:3) 4
"""  # noqa: E501


def samples(recording: str | Recording, by: str) -> list[tuple[str, int]]:
    read = stacks.parse(recording.splitlines()) if isinstance(recording, str) else recording
    return [(name, each.samples) for name, each in sample_groups.split(read, by).items()]


def test_children_of_torchrun_are_ranks_in_the_order_of_their_start_unless_ranks_were_recorded() -> None:
    assert samples(TORCHRUN, "rank") == [("local rank 0", 2), ("local rank 1", 11), ("no rank", 5)]
    text = TORCHRUN.replace('process 9:"', 'process 9:"RANK=10 ').replace('process 4:"', 'process 4:"RANK=2 ')
    assert samples(text, "rank") == [("rank 2", 2), ("rank 10", 11), ("no rank", 5)]


def test_the_files_of_ranks_and_nodes(tmp_path: Path) -> None:
    for name, count in (("profile-node1-rank10.raw", 3), ("profile-node0-rank2.raw", 4), ("profile-node3.raw", 1)):
        (tmp_path / name).write_text(f'process 7:"python train.py";main (train.py:3) {count}\n')
    recording = recorded_runs.read(tmp_path)
    assert samples(recording, "rank") == [("rank 2", 4), ("rank 10", 3), ("node 3, no rank", 1)]
    processes = samples(recording, "process")
    assert processes[0] == ("profile-node0-rank2.raw: 7 python train.py", 4), "7 is another process on another node"
    assert len(processes) == 3


def test_workers_are_named_and_threads_keep_their_names() -> None:
    assert ("12 DataLoader worker", 4) in samples(TORCHRUN, "process")
    text = """\
process 7:"python train.py";thread (0xA1);main (train.py:3) 3
process 7:"python train.py";thread (0xA1): MainThread;main (train.py:4) 2
process 7:"python train.py";thread (0xB2): tqdm_monitor;wait (threading.py:1) 1
"""
    assert samples(text, "thread") == [("thread 0xA1 MainThread", 5), ("thread 0xB2 tqdm_monitor", 1)]


@pytest.mark.parametrize(("by", "remedy"), [("process", "-s"), ("thread", "--threads"), ("rank", "torchrun")])
def test_what_was_not_recorded_cannot_be_told_apart(by: str, remedy: str) -> None:
    with pytest.raises(WorkshopError, match=f"one {by} from another; record with .*{remedy}"):
        samples("main (train.py:3) 3\n", by)
