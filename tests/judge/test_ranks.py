"""How ranks fail."""

from workshop.judge.judged_ranks import _cause
from workshop.processes.script import ScriptError


def test_the_rank_that_failed_is_named_not_the_one_that_noticed() -> None:
    noticed = ScriptError("it ended with code 1", 1, "RuntimeError: Connection closed by peer [127.0.0.1]:1", "a.py")
    killed = ScriptError("it was killed by SIGKILL", -9, "", "a.py")
    assert str(_cause([noticed, killed])) == "rank 1: it was killed by SIGKILL"
    assert str(_cause([killed, noticed])) == "rank 0: it was killed by SIGKILL"
    assert str(_cause([noticed, None])) == "rank 0: it ended with code 1"
    assert isinstance(_cause([None, KeyError("a bug")]), KeyError)
