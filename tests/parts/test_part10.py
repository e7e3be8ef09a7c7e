"""Part 10: how its solution shares out the items, and how its check goes."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from script_runs import run_script

from solutions.part10 import EachItemOnce, check_batches
from workshop.course.checks import config_of, contest_of
from workshop.errors import ConfigError
from workshop.judge.bench import Bench
from workshop.judge.running_scripts import JudgedRanks
from workshop.judge.verdict import Timing
from workshop.parts import find_part
from workshop.parts.part10 import ranks_check as part10
from workshop.runs.script_error import ScriptError

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


def test_batches_that_leave_a_rank_without_items() -> None:
    check_batches(37, 16, ranks=2)
    check_batches(32, 16, ranks=2)
    with pytest.raises(ConfigError, match="batch_size 16 cannot be shared out to 3 ranks; choose a multiple of 3"):
        check_batches(37, 16, ranks=3)
    with pytest.raises(ConfigError, match="the last batch of an epoch has 1 items for 2 ranks"):
        check_batches(33, 16, ranks=2)


def test_without_torchrun_it_says_so(write_config: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_script(PART.solution, write_config()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("start this with torchrun: torchrun --nproc_per_node=2 ")


def bench(script: Path, data: Path) -> Bench:
    """Return a bench on which a script trains on two ranks."""
    return Bench(contest_of(PART, script, config_of(PART, None), data, "cpu"), print)


def test_too_few_cores_to_time_two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part10, "usable_cores", lambda: 7)
    assert str(part10.why_not_timed(2, on_cpu=True)) == (
        "whether 2 ranks are faster than one cannot be measured here: it takes a GPU, or 4 cores, for each, "
        "and there are 7 cores"
    )
    assert not part10.why_not_timed(2, on_cpu=False)
    monkeypatch.setattr(part10, "usable_cores", lambda: 8)
    assert not part10.why_not_timed(2, on_cpu=True)


def test_two_ranks_against_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The median of three pairs, by the clock."""
    now_s = 0.0

    class Ranks(nullcontext["Ranks"]):
        def __init__(self, *seconds: float) -> None:
            super().__init__(self)
            self.seconds, self.scripts = iter(seconds), [None, None]

        def epoch(self) -> None:
            nonlocal now_s
            now_s += next(self.seconds)

    one = Ranks(60.0, 2.0, 2.5, 9.0)  # the first epoch warms it up
    monkeypatch.setattr(part10, "JudgedRanks", lambda contest, count: one)
    monkeypatch.setattr(part10.time, "perf_counter", lambda: now_s)
    bench: Any = SimpleNamespace(say=print, contest=None, ranks=Ranks(1.0, 1.25, 0.5))
    assert part10.timing_of(bench) == Timing("one rank", "2 ranks", 2.5, 1.0, "an epoch", 3)


@pytest.mark.acceptance
def test_two_real_ranks_against_one(data: Path) -> None:
    with bench(PART.solution, data) as two:
        two.ranks.epoch()
        timing = part10.timing_of(two)
    assert (timing.before, timing.after, timing.of) == ("one rank", "2 ranks", "an epoch")
    assert min(timing.before_s, timing.after_s) > 0


def test_a_rank_that_dies_is_named(data: Path, tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text(
        "import os\nif os.environ['RANK'] == '1':\n    os.kill(os.getpid(), 9)\n"
        "raise RuntimeError('Connection closed by peer [127.0.0.1]:1')\n"
    )
    says = "rank 1: it was killed by SIGKILL before the end of its first epoch"
    contest = contest_of(PART, script, config_of(PART, None), data, "cpu")
    with JudgedRanks(contest) as ranks, pytest.raises(ScriptError, match=says):
        ranks.epoch()


@pytest.mark.acceptance
def test_a_rank_that_dies_in_its_training_is_named(data: Path, tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    dies = "os.kill(os.getpid(), 9) if rank == 1 else optimizer.zero_grad()"
    script.write_text(PART.solution.read_text().replace("optimizer.zero_grad()", dies))
    says = "rank 1: it was killed by SIGKILL before the end of its first epoch"
    with bench(script, data) as two, pytest.raises(ScriptError, match=says):
        PART.check(two)
