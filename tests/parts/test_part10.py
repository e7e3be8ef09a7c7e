"""Part 10: the solution's sampler and its config checks, how ranks are judged, and the cheats."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Run
from torch import nn

from solutions.part10 import EachItemOnce, check_batches
from workshop import bad_node
from workshop.errors import ConfigError
from workshop.harness import replay
from workshop.harness.child import ScriptError
from workshop.harness.ledger import Forward, Ledger, Step
from workshop.harness.ranks import RanksBench, _cause, check_parameters, check_steps
from workshop.harness.trial import Trial
from workshop.harness.verdict import Outcome, Verdict
from workshop.judge import config_for
from workshop.parts import find_part

PART = find_part("part10")
Judge = Callable[[Path], Verdict]


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


def test_the_solution_without_torchrun_says_so(run: Run, write_config: Callable[..., Path]) -> None:
    done = run(PART.solution, write_config())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("start this with torchrun: torchrun --nproc_per_node=2 ")


def test_a_bad_node_strikes_one_of_several_ranks(run: Run, tmp_path: Path) -> None:
    count = (
        "from torch.optim.optimizer import _global_optimizer_pre_hooks as hooks\n"
        "from workshop.bad_node import strike\nstrike(0.1)\nprint(len(hooks))"
    )
    found = [
        run("-c", count, environment={"RANK": rank, "WORLD_SIZE": size}).stdout.strip()
        for rank, size in (("0", "2"), ("1", "2"), ("0", "1"))
    ]
    struck = bad_node.struck_rank(2, tmp_path)
    assert found == [str(int(struck == 0)), str(int(struck == 1)), "0"]


def test_every_rank_may_be_on_the_bad_node(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(40)]
    for folder in folders:
        folder.mkdir()
    assert {bad_node.struck_rank(2, folder) for folder in folders} == {0, 1}


def step(parameter: tuple[float, ...], size: int = 4, t: float = 1.0) -> Step:
    forward = Forward(t, (size, 2), "float32", "cpu", False, np.zeros((size, 64), np.float32), tuple(range(size)))
    return Step(t, (forward,), 1, parameter)


def test_what_ranks_did_is_one_run() -> None:
    ledgers = [Ledger(steps=[step((1.0, 2.0), 4, 2.0)], iters=[0.0]), Ledger(steps=[step((1.0, 2.0), 3)], iters=[0.5])]
    whole = Ledger.of_ranks(ledgers)
    [forward] = whole.forwards
    assert (forward.shape, forward.t, forward.targets) == ((7, 2), 1.0, (0, 1, 2, 3, 0, 1, 2))
    assert forward.values.shape == (7, 64)
    assert list(check_parameters(ledgers)) == []
    assert list(check_steps(ledgers)) == []


def test_ranks_that_are_not_one_training() -> None:
    same, other = step((1.0, 2.0)), step((1.0, 2.1))
    [says] = check_parameters([Ledger(steps=[same, same]), Ledger(steps=[same, other])])
    assert says.startswith("after step 2 the ranks have different parameters")
    [says] = check_steps([Ledger(steps=[same, same]), Ledger(steps=[same])])
    assert says == "the ranks do not step together: in an epoch, rank 0 takes 2, rank 1 takes 1 steps"


@pytest.mark.parametrize("share", ["items", "ranks"])
def test_a_step_that_ranks_took_together_is_computed_over_again(share: str, tmp_path: Path) -> None:
    """Whether they weight by items or by ranks; and another gradient is found out."""
    torch.manual_seed(0)
    model, loss = nn.Linear(3, 2), nn.functional.cross_entropy
    batches = [(torch.randn(size, 3), torch.randint(2, (size,))) for size in (3, 2)]
    before = [parameter.detach().clone() for parameter in model.parameters()]
    own = nn.Linear(3, 2)
    own.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    losses = []
    for batch, targets in batches:
        value = loss(own(batch), targets)
        losses.append(value.detach())
        (value * (len(batch) / 5 if share == "items" else 0.5)).backward()
    optimizer.step()
    paths = []
    for number, ((batch, targets), value) in enumerate(zip(batches, losses, strict=True)):
        after = [parameter.detach() for parameter in own.parameters()]
        record = {
            "batch": batch,
            "targets": targets,
            "loss": value,
            "before": before,
            "after": after,
            "state": [{}, {}],
        }
        paths.append(tmp_path / f"{number}.pt")
        torch.save(record, paths[-1])

    found = replay.recompute(paths, model, optimizer, (loss, (), {}))
    assert found["update_error"] < 1e-4
    assert found["loss"] == pytest.approx(found["recorded_loss"], rel=1e-5)
    assert replay.recompute(paths[:1], model, optimizer, (loss, (), {}))["update_error"] > 0.1


def test_the_rank_that_failed_is_named_not_the_one_that_noticed() -> None:
    noticed = ScriptError("it ended with code 1", 1, "RuntimeError: Connection closed by peer [127.0.0.1]:1")
    killed = ScriptError("it was killed by SIGKILL", -9, "")
    assert str(_cause([noticed, killed])) == "rank 1: it was killed by SIGKILL"
    assert str(_cause([killed, noticed])) == "rank 0: it was killed by SIGKILL"
    assert str(_cause([noticed, None])) == "rank 0: it ended with code 1"
    assert isinstance(_cause([None, KeyError("a bug")]), KeyError)


@pytest.fixture
def judge(data: Path) -> Judge:
    def judge(script: Path) -> Verdict:
        trial = Trial(PART, script, config_for(PART, None), data.resolve(), "cpu")
        with RanksBench(trial, lambda _: None) as bench:
            return PART.check(bench)

    return judge


@pytest.mark.slow
def test_the_solution_passes_and_the_untouched_script_is_told_what_is_missing(judge: Judge) -> None:
    verdict = judge(PART.solution)
    assert verdict.outcome is Outcome.DONE
    assert "2 ranks train one model: each item once an epoch" in verdict.reasons[0]
    if (os.cpu_count() or 1) < 8 and not torch.cuda.is_available():
        assert "cannot be measured here" in verdict.reasons[1]
    untouched = judge(PART.untouched)
    assert untouched.outcome is Outcome.NOT_YET
    assert "init_process_group is missing" in untouched.reasons[0]


@pytest.mark.slow
def test_two_ranks_against_one(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workshop.harness.ranks.CORES_FOR_A_RANK", 0)
    trial = Trial(PART, PART.solution, config_for(PART, None), data.resolve(), "cpu")
    with RanksBench(trial, lambda _: None) as bench:
        bench.ranks.epoch()
        assert " times as fast as one" in bench.speed()


@pytest.mark.slow
def test_a_rank_that_dies_is_named(judge: Judge, tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    dies = "                optimizer.zero_grad()\n                if rank == 1: os.kill(os.getpid(), 9)\n"
    script.write_text(PART.solution.read_text().replace("                optimizer.zero_grad()\n", dies))
    with pytest.raises(ScriptError, match="rank 1: it was killed by SIGKILL before the end of its first epoch"):
        judge(script)
