"""What takes longer than it may is left."""

import threading
import time

import pytest

from workshop.probe.trials.time_limit import TooLongError, time_limit


def work(seconds: float) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            sum(range(1000))
        except Exception:
            raise AssertionError("the limit is no usual exception") from None
    return "done"


def test_what_takes_too_long_is_left() -> None:
    begun = time.monotonic()
    with pytest.raises(TooLongError), time_limit(0.1):
        work(30)
    assert time.monotonic() - begun < 20


def test_what_ends_in_time_is_not_disturbed() -> None:
    with time_limit(0.05):
        pass
    assert work(0.2) == "done"
    assert [each for each in threading.enumerate() if isinstance(each, threading.Timer)] == []


def test_nothing_comes_late() -> None:
    """The limit may be over just as the work ends: then the exception comes inside, or never."""
    outcomes = set()
    for number in range(100):
        try:
            with time_limit(0.005):
                work(0.004 * (number % 5))
            outcomes.add("in time")
        except TooLongError:
            outcomes.add("too long")
        work(0.0005)
    assert outcomes == {"in time", "too long"}


def test_an_exception_that_comes_of_the_interruption_is_none_of_its_own() -> None:
    def interrupted() -> None:
        try:
            work(30)
        finally:
            raise ValueError("an assumption does not hold")

    with pytest.raises(TooLongError), time_limit(0.1):
        interrupted()


def test_another_thread_has_its_own_limit() -> None:
    said = []

    def limited() -> None:
        try:
            with time_limit(0.1):
                work(30)
        except TooLongError:
            said.append("too long")

    thread = threading.Thread(target=limited)
    thread.start()
    assert work(0.3) == "done"
    thread.join()
    assert said == ["too long"]
