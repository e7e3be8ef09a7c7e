"""Whether ranks are one training, and which of them fails."""

import numpy as np

from workshop.judge.ledger import Ledger
from workshop.judge.running_scripts import _cause
from workshop.judge.work_proof import WorkReason, check_parameters, check_steps
from workshop.probe.events import ForwardPass, StepTaken
from workshop.probe.signature import encode
from workshop.runs.script_error import ScriptError, UnseenError


def step(parameter: tuple[float, ...], size: int = 4, t: float = 1.0) -> StepTaken:
    forward = ForwardPass(t, (size, 2), "float32", "cpu", False, encode(np.zeros((size, 64))), tuple(range(size)))
    return StepTaken(t, 1, 1, (forward,), 1, parameter)


def test_what_ranks_did_is_one_run() -> None:
    ledgers = [
        Ledger(steps=[step((1.0, 2.0), 4, 2.0)], loader_starts=[0.0]),
        Ledger(steps=[step((1.0, 2.0), 3)], loader_starts=[0.5]),
    ]
    whole = Ledger.of_ranks(ledgers)
    [forward] = whole.forwards
    assert (forward.shape, forward.targets) == ((7, 2), (0, 1, 2, 3, 0, 1, 2))
    assert (forward.t, whole.loader_starts) == (2.0, [0.5]), "the slowest rank counts"
    assert forward.pictures.shape == (7, 64)
    assert [*check_parameters(ledgers), *check_steps(ledgers)] == []


def test_ranks_that_are_not_one_training() -> None:
    same, other = step((1.0, 2.0)), step((1.0, 2.1))
    [says] = check_parameters([Ledger(steps=[same, same]), Ledger(steps=[same, other])])
    assert (says.kind, says.figures) == (WorkReason.RANKS_APART, {"step": 2})
    [says] = check_steps([Ledger(steps=[same, same]), Ledger(steps=[same])])
    assert str(says) == "the ranks do not step together: in an epoch, rank 0 takes 2, rank 1 takes 1 steps"


def test_the_rank_that_failed_is_named_not_the_one_that_noticed() -> None:
    noticed = ScriptError("it ended with code 1", 1, "RuntimeError: Connection closed by peer [127.0.0.1]:1", "a.py")
    killed = ScriptError("it was killed by SIGKILL", -9, "", "a.py")
    assert str(_cause([noticed, killed])) == "rank 1: it was killed by SIGKILL"
    assert str(_cause([killed, noticed])) == "rank 0: it was killed by SIGKILL"
    assert str(_cause([noticed, None])) == "rank 0: it ended with code 1"
    assert isinstance(_cause([None, KeyError("a bug")]), KeyError)


def test_what_cannot_be_seen_of_a_rank_is_no_crash() -> None:
    unseen = UnseenError("the workshop's probe failed in it", None, "", "a.py")
    assert isinstance(_cause([None, unseen]), UnseenError)
