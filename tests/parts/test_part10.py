"""Part 10: how its solution shares out the items, and how its check goes."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from script_runs import run_script

from solutions.part10 import EachItemOnce, check_batches
from workshop.course.checks import config_of, contest_of
from workshop.errors import ConfigError
from workshop.judge.ranks import RanksBench
from workshop.parts import find_part
from workshop.processes.script import ScriptError

PART = find_part("part10")


@pytest.mark.parametrize(("items", "ranks"), [(37, 2), (36, 4), (5, 4), (3, 4), (370, 7)])
def test_the_sampler_deals_each_item_once(items: int, ranks: int) -> None:
    samplers = [EachItemOnce(range(items), num_replicas=ranks, rank=rank) for rank in range(ranks)]  # type: ignore[arg-type]
    orders = []
    for epoch in range(2):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        dealt = [list(sampler) for sampler in samplers]
        assert [len(hand) for hand in dealt] == [len(sampler) for sampler in samplers]
        assert Counter(item for hand in dealt for item in hand) == Counter(range(items))
        orders.append(dealt)
    assert orders[0] != orders[1]


@pytest.mark.parametrize(
    ("items", "batch_size", "ranks", "says"),
    [
        (37, 16, 3, "batch_size 16 cannot be shared out to 3 ranks; choose a multiple of 3"),
        (33, 16, 2, "the last batch of an epoch has 1 items for 2 ranks"),
        (37, 16, 2, None),
        (32, 16, 2, None),
    ],
)
def test_batches_that_leave_a_rank_without_items(items: int, batch_size: int, ranks: int, says: str | None) -> None:
    if says is None:
        check_batches(items, batch_size, ranks)
    else:
        with pytest.raises(ConfigError, match=says):
            check_batches(items, batch_size, ranks)


def test_the_solution_without_torchrun_says_so(
    write_config: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_script(PART.solution, write_config()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("start this with torchrun: torchrun --nproc_per_node=2 ")


@pytest.fixture
def bench(data: Path) -> Callable[[Path], RanksBench]:
    """Make a bench on which a script trains on two ranks."""

    def make(script: Path) -> RanksBench:
        return RanksBench(contest_of(PART, script, config_of(PART, None), data, "cpu"), PART.ranks, print, on_cpu=True)

    return make


@pytest.mark.parametrize("cores", [7, pytest.param(8, marks=pytest.mark.slow)])
def test_two_ranks_against_one(
    cores: int, bench: Callable[[Path], RanksBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workshop.judge.ranks.usable_cores", lambda: cores)
    with bench(PART.solution) as ranks:
        if cores < 8:
            assert ranks.speed() == (
                "whether 2 ranks are faster than one cannot be measured here: it takes a GPU, or 4 cores, for each, "
                "and there are 7 cores"
            )
        else:
            ranks.ranks.epoch()
            assert " times as fast as one" in ranks.speed()


@pytest.mark.slow
def test_a_rank_that_dies_is_named(bench: Callable[[Path], RanksBench], tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    dies = "                optimizer.zero_grad()\n                if rank == 1: os.kill(os.getpid(), 9)\n"
    script.write_text(PART.solution.read_text().replace("                optimizer.zero_grad()\n", dies))
    with (
        bench(script) as ranks,
        pytest.raises(ScriptError, match="rank 1: it was killed by SIGKILL before the end of its first epoch"),
    ):
        PART.check(ranks)
