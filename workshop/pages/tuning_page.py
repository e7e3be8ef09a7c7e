"""Draws what was found about the settings of a DataLoader as one HTML file, which loads nothing and runs no script."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from workshop.pages.template import crashed, fill, section, table
from workshop.runs.other_load import about

Values = Mapping[str, Any]

WIDTH, HEIGHT, LEFT, BELOW = 900, 300, 70, 40


def page(name: str, found: Values) -> str:
    """Return a page with the curve, its intervals, and the edit.

    Args:
        name: the script's.
        found: the result as plain values, as `workshop tune --json` prints them.
    """
    rough = about(bool(found["machine"] and found["machine"]["busy"]))
    known = [each for each in found["tried"] if each["blocks_ms"]]
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
        section("The judge", "".join(f"<p>{escape(each)}</p>" for each in found["verdict"]["reasons"]))
        if found["verdict"]
        else "",
        *(f"<p>{escape(note)}</p>" for note in found["notes"]),
    ]
    return fill(f"{name}: {found['advice']}", f'<div class="measured">{"".join(body)}</div>', "workshop tune")


HEADER = ("workers", "prefetch", "samples/s", "±", "memory, MB", "start-up, s", "/dev/shm, MB", "")


def _row(tried: Values) -> str:
    settings = tried["settings"]
    margin = tried.get("samples_per_s_margin")
    cells = [
        str(settings["workers"]),
        str(settings["prefetch_factor"]) if settings["workers"] else "",
        f"{tried['samples_per_s']:.1f}" if tried["blocks_ms"] else "",
        f"{margin:.1f}" if margin is not None else "",
        f"{tried['memory_bytes'] / 1e6:.0f}" if tried["memory_bytes"] else "",
        f"{tried['first_batch_s']:.2f}" if settings["workers"] and tried["blocks_ms"] else "",
        f"{tried['shared_bytes'] / 1e6:.1f}",
        tried["why_not"] or tried["became"],
    ]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _limits(found: Values) -> Iterator[str]:
    for each in found["limits"]:
        yield f"<p><b>{escape(each['cause'])}</b> {escape(each['words'])}</p>"


def _curve(known: Sequence[Values], found: Values) -> str:
    """Draw a point with its interval for each setting, by its number of workers, and a line for batches from memory."""
    ceiling = found["headroom"]["samples_per_s"] if found["headroom"] else 0.0
    numbers = sorted({each["settings"]["workers"] for each in known})
    limit = max([ceiling, *(each["samples_per_s"] for each in known)])  # the machine may have been busier meanwhile
    top = 1.05 * max([limit, *(each["samples_per_s"] + (each["samples_per_s_margin"] or 0.0) for each in known)])

    def x(each: Values) -> float:
        more = {2: 0.0, 4: 12.0, 8: 24.0}.get(each["settings"]["prefetch_factor"], 36.0)
        return LEFT + (numbers.index(each["settings"]["workers"]) + 0.5) * (WIDTH - LEFT) / len(numbers) + more

    def y(rate: float) -> float:
        return HEIGHT * (1 - max(rate, 0.0) / top)

    parts = [f'<line x1="{LEFT}" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>']
    if ceiling:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y(limit):.1f}" y2="{y(limit):.1f}" stroke-dasharray="4"/>')
        least = "≥ " * (ceiling < limit)
        parts.append(f'<text x="{LEFT + 4}" y="{y(limit) + 14:.1f}">from memory: {least}{limit:.1f}</text>')
    usual = sorted((each for each in known if each["settings"]["prefetch_factor"] == 2), key=x)
    points = " ".join(f"{x(each):.1f},{y(each['samples_per_s']):.1f}" for each in usual)
    parts.append(f'<polyline points="{points}"/>')
    for each in known:
        margin = each["samples_per_s_margin"] or 0.0
        low, high = y(each["samples_per_s"] - margin), y(each["samples_per_s"] + margin)
        parts.append(f'<line x1="{x(each):.1f}" x2="{x(each):.1f}" y1="{low:.1f}" y2="{high:.1f}"/>')
        says = f"{each['settings']['workers']} workers: {each['samples_per_s']:.1f} ± {margin:.1f}, {each['became']}"
        at = f'cx="{x(each):.1f}" cy="{y(each["samples_per_s"]):.1f}"'
        parts.append(f'<circle {at} r="4"><title>{escape(says)}</title></circle>')
    for place, number in enumerate(numbers):
        middle = LEFT + (place + 0.5) * (WIDTH - LEFT) / len(numbers)
        parts.append(f'<text x="{middle:.1f}" y="{HEIGHT + 20}" text-anchor="middle">{number}</text>')
    parts.append(f'<text x="0" y="14">{top:.0f}</text><text x="0" y="{HEIGHT}">0</text>')
    label = "Samples a second with each number of workers, with their intervals"
    box = f'viewBox="0 0 {WIDTH} {HEIGHT + BELOW}" role="img" aria-label="{label}"'
    return f'<svg class="curve" {box}>{"".join(parts)}</svg>'
