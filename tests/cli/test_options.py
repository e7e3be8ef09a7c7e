"""Times and shares as people write them."""

from collections.abc import Callable

import pytest
import typer

from workshop.cli.options import seconds_of, share_of

TIMES = {"90": 90, "90s": 90, "1.5m": 90, "10m": 600, "1h": 3600, " 10 m ": 600}
SHARES = {"5%": 0.05, "5 %": 0.05, "5": 0.05, "0%": 0.0, "12.5%": 0.125}
NO_TIMES, NO_SHARES = ("", "m", "-5", "1d", "nan", "1e3", "ten"), ("", "%", "-5%", "100%", "1000", "0.05x")


@pytest.mark.parametrize(
    ("read", "known", "unknown", "says"),
    [(seconds_of, TIMES, NO_TIMES, "is no time"), (share_of, SHARES, NO_SHARES, "is no share")],
)
def test_what_is_a_time_or_a_share(
    read: Callable[[str], float], known: dict[str, float], unknown: tuple[str, ...], says: str
) -> None:
    assert {text: read(text) for text in known} == pytest.approx(known)
    for text in unknown:
        with pytest.raises(typer.BadParameter, match=says):
            read(text)
