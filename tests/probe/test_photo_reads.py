"""What a thread sleeps is counted, and no time passes for a sleeper while its process is stopped."""

import time

import pytest

from workshop.probe import photo_reads


def test_a_sleeper_that_was_stopped_sleeps_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a second, when it has slept for a tenth of one, so that it must sleep for four tenths after."""
    now, naps = 0.0, list[float]()

    def nap(seconds: float) -> None:
        nonlocal now
        naps.append(seconds)
        now += seconds + (1.0 if len(naps) == 5 else 0.0)

    monkeypatch.setattr(photo_reads, "_sleep", nap)
    monkeypatch.setattr(photo_reads, "_monotonic", lambda: now)
    monkeypatch.setattr(photo_reads, "_waits", photo_reads._Waits())
    monkeypatch.setattr(time, "sleep", nap)  # so that it is put back
    photo_reads.watch_sleep()
    time.sleep(0.5)
    assert (now, photo_reads._waits.slept_s) == pytest.approx((1.5, 0.5))
