"""Draws what was found about the settings of a DataLoader as one HTML file, which loads nothing and runs no script."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from workshop.pages.template import crashed, fill, section, table
from workshop.probe.loader_settings import COLUMNS, cells
from workshop.runs.other_load import about

Values = Mapping[str, Any]

WIDTH, HEIGHT, LEFT, BELOW, BESIDE = 900, 300, 70, 40, 12


def page(name: str, found: Values) -> str:
    """Return a page with the curve, its intervals, and the edit.

    Args:
        name: the script's.
        found: the result as plain values, as `workshop tune --json` prints them.
    """
    rough = about(bool(found["machine"] and found["machine"]["busy"]))
    known = [tried for tried in found["tried"] if tried["blocks_ms"]]
    body = [
        crashed(found["crash"]),
        f'<p class="quiet">{escape(found["reason"])}</p>',
        section(f"{rough}samples a second, by the number of workers".capitalize(), _curve(known, found))
        if known
        else "",
        section("What was tried", table(HEADER, map(_row, found["tried"]))) if found["tried"] else "",
        section("The edit", f"<pre>{escape(chr(10).join(found['edit']['diff']))}</pre>") if found["edit"] else "",
        section("The line that takes most of the loading", f"<p>{escape(found['slowest']['words'])}</p>")
        if found["slowest"]
        else "",
        section("What limits it then", "".join(_limits(found))) if found["limits"] else "",
        section("The judge", "".join(f"<p>{escape(reason)}</p>" for reason in found["verdict"]["reasons"]))
        if found["verdict"]
        else "",
        *(f"<p>{escape(note)}</p>" for note in found["notes"]),
    ]
    return fill(f"{name}: {found['advice']}", f'<div class="measured">{"".join(body)}</div>', "workshop tune")


SETTINGS = [setting.column for setting in COLUMNS.values()]
HEADER = (*SETTINGS, "samples/s", "±", "memory, MB", "start-up, s", "/dev/shm, MB", "")


def _row(tried: Values) -> str:
    settings = tried["settings"]
    margin = tried.get("samples_per_s_margin")
    row = [
        *cells(settings, ""),
        f"{tried['samples_per_s']:.1f}" if tried["blocks_ms"] else "",
        f"{margin:.1f}" if margin is not None else "",
        f"{tried['memory_bytes'] / 1e6:.0f}" if tried["memory_bytes"] else "",
        f"{tried['first_batch_s']:.2f}" if settings["workers"] and tried["blocks_ms"] else "",
        f"{tried['shared_bytes'] / 1e6:.1f}",
        tried["why_not"] or tried["became"],
    ]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"


def _limits(found: Values) -> Iterator[str]:
    for finding in found["limits"]:
        yield f"<p><b>{escape(finding['cause'])}</b> {escape(finding['words'])}</p>"


def _curve(known: Sequence[Values], found: Values) -> str:
    """Draw a point with its interval for each setting, by its number of workers, and a line for batches from memory.

    The curve goes through the first one that was tried with each number of workers.
    """
    ceiling = found["headroom"]["samples_per_s"] if found["headroom"] else 0.0
    by_workers: dict[int, list[Values]] = {}
    for tried in sorted(known, key=lambda tried: tried["settings"]["workers"]):
        by_workers.setdefault(tried["settings"]["workers"], []).append(tried)
    limit = max([ceiling, *(tried["samples_per_s"] for tried in known)])  # the machine may have been busier meanwhile
    top = 1.05 * max([limit, *(tried["samples_per_s"] + (tried["samples_per_s_margin"] or 0.0) for tried in known)])

    def y(rate: float) -> float:
        return HEIGHT * (1 - max(rate, 0.0) / top)

    parts = [f'<line x1="{LEFT}" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>']
    if ceiling:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y(limit):.1f}" y2="{y(limit):.1f}" stroke-dasharray="4"/>')
        least = "≥ " * (ceiling < limit)
        parts.append(f'<text x="{LEFT + 4}" y="{y(limit) + 14:.1f}">from memory: {least}{limit:.1f}</text>')
    points, curve = [], []
    for place, (workers, group) in enumerate(by_workers.items()):
        middle = LEFT + (place + 0.5) * (WIDTH - LEFT) / len(by_workers)
        curve.append(f"{middle:.1f},{y(group[0]['samples_per_s']):.1f}")
        points += [_point(tried, middle + at * BESIDE, y) for at, tried in enumerate(group)]
        points.append(f'<text x="{middle:.1f}" y="{HEIGHT + 20}" text-anchor="middle">{workers}</text>')
    parts += [f'<polyline points="{" ".join(curve)}"/>', *points]
    parts.append(f'<text x="0" y="14">{top:.0f}</text><text x="0" y="{HEIGHT}">0</text>')
    label = "Samples a second with each number of workers, with their intervals"
    box = f'viewBox="0 0 {WIDTH} {HEIGHT + BELOW}" role="img" aria-label="{label}"'
    return f'<svg class="curve" {box}>{"".join(parts)}</svg>'


def _point(tried: Values, x: float, y: Callable[[float], float]) -> str:
    """A point with its interval."""
    rate, margin = tried["samples_per_s"], tried["samples_per_s_margin"] or 0.0
    interval = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y(rate - margin):.1f}" y2="{y(rate + margin):.1f}"/>'
    says = f"{tried['settings']['workers']} workers: {rate:.1f} ± {margin:.1f}, {tried['became']}"
    return f'{interval}<circle cx="{x:.1f}" cy="{y(rate):.1f}" r="4"><title>{escape(says)}</title></circle>'
