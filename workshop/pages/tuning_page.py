"""Draws what was found about the settings of a DataLoader as one HTML file, which loads nothing and runs no script."""

from collections.abc import Callable, Sequence
from html import escape

from workshop.pages.template import Values, chart, measured, paragraphs, prose, table
from workshop.probe.loader_settings import COLUMNS, cells
from workshop.runs.other_load import about

SETTINGS = [setting.column for setting in COLUMNS.values()]
HEADER = (*SETTINGS, "samples/s", "±", "memory, MB", "start-up, s", "/dev/shm, MB", "")


def page(name: str, found: Values) -> str:
    """Return a page that shows what `workshop tune --json` prints: the curve, its intervals, and the edit."""
    rough = about(bool(found["machine"] and found["machine"]["busy"]))
    known = [tried for tried in found["tried"] if tried["blocks_ms"]]
    edit = f"<pre>{escape(chr(10).join(found['edit']['diff']))}</pre>" if found["edit"] else ""
    limits = (f"<p><b>{escape(each['cause'])}</b> {prose(each['words'])}</p>" for each in found["limits"])
    slowest, verdict = found["slowest"], found["verdict"]
    sections = {
        f"{rough}samples a second, by the number of workers".capitalize(): _curve(known, found),
        "What was tried": table(HEADER, map(_row, found["tried"])),
        "The edit": edit,
        "The line that takes most of the loading": paragraphs([slowest["words"]] if slowest else []),
        "What limits it then": "".join(limits),
        "The judge": paragraphs(verdict["reasons"] if verdict else []),
    }
    return measured(f"{name}: {found['advice']}", found["reason"], found, sections, "workshop tune")


def _row(tried: Values) -> list[str]:
    settings = tried["settings"]
    margin = tried.get("samples_per_s_margin")
    return [
        *cells(settings, ""),
        f"{tried['samples_per_s']:.1f}" if tried["blocks_ms"] else "",
        f"{margin:.1f}" if margin is not None else "",
        f"{tried['memory_bytes'] / 1e6:.0f}" if tried["memory_bytes"] else "",
        f"{tried['first_batch_s']:.2f}" if settings["workers"] and tried["blocks_ms"] else "",
        f"{tried['shared_bytes'] / 1e6:.1f}",
        tried["why_not"] or tried["became"],
    ]


def _curve(known: Sequence[Values], found: Values) -> str:
    """Draw a point with its interval for each setting, by its number of workers, and a line for batches from memory.

    The curve goes through the first one that was tried with each number of workers.
    """
    if not known:
        return ""
    ceiling = found["headroom"]["samples_per_s"] if found["headroom"] else 0.0
    left, width, height = 70, 900, 300  # pixels
    by_workers: dict[int, list[Values]] = {}
    for tried in sorted(known, key=lambda tried: tried["settings"]["workers"]):
        by_workers.setdefault(tried["settings"]["workers"], []).append(tried)
    limit = max([ceiling, *(tried["samples_per_s"] for tried in known)])  # the machine may have been busier meanwhile
    top = 1.05 * max([limit, *(tried["samples_per_s"] + (tried["samples_per_s_margin"] or 0.0) for tried in known)])

    def y(rate: float) -> float:
        return height * (1 - max(rate, 0.0) / top)

    def level(at: str, look: str = "") -> str:
        return f'<line x1="{left}" x2="{width}" y1="{at}" y2="{at}"{look}/>'

    parts = [level(f"{height}")]
    if ceiling:
        parts.append(level(f"{y(limit):.1f}", ' stroke-dasharray="4"'))
        least = "≥ " * (ceiling < limit)
        parts.append(f'<text x="{left + 4}" y="{y(limit) + 14:.1f}">from memory: {least}{limit:.1f}</text>')
    points, curve = [], []
    for place, (workers, group) in enumerate(by_workers.items()):
        middle = left + (place + 0.5) * (width - left) / len(by_workers)
        curve.append(f"{middle:.1f},{y(group[0]['samples_per_s']):.1f}")
        points += [_point(tried, middle + at * 12, y) for at, tried in enumerate(group)]
        points.append(f'<text x="{middle:.1f}" y="{height + 20}" text-anchor="middle">{workers}</text>')
    parts += [f'<polyline points="{" ".join(curve)}"/>', *points]
    parts.append(f'<text x="0" y="14">{top:.0f}</text><text x="0" y="{height}">0</text>')
    return chart(parts, width, height + 40, "Samples a second with each number of workers, with their intervals")


def _point(tried: Values, x: float, y: Callable[[float], float]) -> str:
    """A point with its interval."""
    rate, margin = tried["samples_per_s"], tried["samples_per_s_margin"] or 0.0
    interval = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y(rate - margin):.1f}" y2="{y(rate + margin):.1f}"/>'
    says = f"{tried['settings']['workers']} workers: {rate:.1f} ± {margin:.1f}, {tried['became']}"
    return f'{interval}<circle cx="{x:.1f}" cy="{y(rate):.1f}" r="4"><title>{escape(says)}</title></circle>'
