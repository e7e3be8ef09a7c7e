"""Data frames and pictures, with pandas and plotly: two packages that only notebooks need."""

from typing import TYPE_CHECKING, Any

from workshop.profiles.traces.decoding import TraceError

if TYPE_CHECKING:
    import pandas

MISSING = "pip install pandas plotly"


def frame(data: Any) -> "pandas.DataFrame":
    """A data frame of rows, or of columns.

    Raises:
        TraceError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise TraceError(f"data frames need pandas: {MISSING}") from None
    return pandas.DataFrame(data)


def bars(data: "pandas.DataFrame", x: str, values: list[str], title: str) -> None:
    """Show one bar for each row, made of some columns."""
    if len(data):
        _plotly().bar(data, x=x, y=values, title=title).show()


def pie(data: "pandas.DataFrame", names: str, values: str, title: str) -> None:
    """Show the shares of a column."""
    if len(data):
        _plotly().pie(data, names=names, values=values, title=title).show()


def histogram(data: "pandas.DataFrame", columns: list[str], title: str) -> None:
    """Show how often which value occurs, for some columns."""
    if len(data):
        _plotly().histogram(data, x=columns, barmode="overlay", title=title).show()


def _plotly() -> Any:
    try:
        import plotly.express
    except ImportError:
        raise TraceError(f"pictures need plotly: {MISSING}; or say visualize=False") from None
    return plotly.express
