"""Times and shares as people write them."""

import pytest
import typer

from workshop.cli.options import seconds_of, share_of


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("10m", 600), ("1h", 3600), (" 10 m ", 600)]
)
def test_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-5", "1d", "nan", "1e3", "ten"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no time"):
        seconds_of(text)


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("5 %", 0.05), ("5", 0.05), ("0%", 0.0), ("12.5%", 0.125)])
def test_shares(text: str, share: float) -> None:
    assert share_of(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "%", "-5%", "100%", "1000", "0.05x"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no share"):
        share_of(text)
