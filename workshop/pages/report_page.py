"""Draws what was measured in a course as one HTML file to keep, print and send; it loads nothing and runs no script."""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from urllib.parse import quote

from workshop.pages.template import PHASE_COLOURS, Values, bar, fill, keys, quiet, section, table
from workshop.probe.phases import FORWARD_AND_VALIDATION, Phase
from workshop.runs.other_load import about

EXPLANATION = """\
Bars begin at 0, and the thin line is 1x: as fast as before. The mark on a bar is the 95 % interval of the speedup. Each
part has its own script to be faster than, named below; so these speedups are not to be multiplied."""

OF_MEMORY = "Two bars below each other are the memory, before and after, on a scale of their own."

_COLOURS = PHASE_COLOURS | {FORWARD_AND_VALIDATION: Phase.FORWARD.colour}

PROMISE = """\
All figures were measured as <code>workshop check</code> or a profiler ran. What has no figure was not measured."""


def page(found: Values, folder: Path, now: datetime) -> str:
    """Return the page of what `workshop report --json` prints; links to other pages lead from the folder it lies in."""
    body = [
        quiet(escape(_summary(found, now))),
        section("Parts and speedups", f"{_parts(found['parts'])}{_explanation(found['parts'])}"),
        *(_details(part) for part in found["parts"] if part["shown"]),
        section("Lines, before and after", "".join(map(_lines, found["line_profiles"]))),
        section("Pages that were made", _pages(found["pages"], folder) if found["pages"] else ""),
        section("Machine and versions", "".join(_machines(found["checks"]))),
        section("Every check", _checks(found["checks"])),
        quiet(PROMISE),
    ]
    title = f"A profiling workshop for PyTorch: {found['done']} of {found['count']} parts done"
    return fill(title, body, "workshop report", kind="course")


def _summary(found: Values, now: datetime) -> str:
    checks = found["checks"]
    drawn = f"Drawn on {_date(now.isoformat())}."
    if not checks:
        return f"No check was kept here yet. {drawn}"
    count = "1 check" if len(checks) == 1 else f"{len(checks)} checks"
    first, last = (_date(each["at"]) for each in (checks[0], checks[-1]))
    if first == last:
        return f"{count}, {first}. {drawn}"
    if first.partition(",")[0] == last.partition(",")[0]:
        last = last.partition(", ")[2]
    return f"{count}, {first} to {last}. {drawn}"


def _parts(parts: Sequence[Values]) -> str:
    """Draw a row for each part: whether it is done, and the bar of its speedup on one scale with all others.

    The picture reaches to 1.5 times the best speedup: wider intervals end at its edge.
    """
    gains = [part["shown"]["gain"] for part in parts if part["shown"] and part["shown"]["gain"]]
    best = max((gain["ratio"] for gain in gains), default=1.0)
    widest = max([1.0, best, *(gain["high"] or 0.0 for gain in gains)])
    scale = min(widest, 1.5 * max(best, 1.0)) * 1.02
    return f'<div class="parts">{"".join(_part(part, scale) for part in parts)}</div>'


def _part(part: Values, scale: float) -> str:
    shown = part["shown"]
    state = "done" if part["done"] else shown["state"] if shown else "open"
    name = escape(_name(part))
    title = f'<a href="#{_anchor(part)}">{name}</a>' if shown else name
    kind = "part done" if part["done"] else "part"
    figure, picture = "", f'<span class="quiet">{escape(_why_no_gain(part))}</span>'
    if shown and (gain := shown["gain"]):
        figure = f"<b>{escape(gain['text'])}</b> <small>{escape(gain['interval'])}</small>"
        picture = _gauge(gain, scale)
    elif shown and (memory := shown["memory"]):
        figure = f"<b>{_from_to(memory)}</b> <small>of tensors at the peak</small>"
        picture = _memory_gauge(memory)
    mark = "✓" if part["done"] else "·"
    return (
        f'<div class="{kind}"><span class="name"><i>{mark}</i>{title}</span><span class="state">{escape(state)}</span>'
        f'<div class="picture">{picture}</div><span class="gained">{figure}</span></div>'
    )


def _gauge(gain: Values, scale: float) -> str:
    """Draw a speedup as a bar, with its interval if it has one, and the line of 1x."""

    def place(ratio: float) -> float:
        return min(ratio / scale, 1.0)

    says = f"{gain['text']} over {gain['before']}"
    marks = f'<i class="reached" style="width:{place(gain["ratio"]):.2%}"></i>'
    if gain["low"] is not None:
        low, high = place(gain["low"]), place(gain["high"])
        marks += f'<i class="interval" style="left:{low:.2%};width:{high - low:.2%}"></i>'
    marks += f'<i class="one" style="left:{place(1.0):.2%}"></i>'
    return f'<div class="gauge" role="img" aria-label="{escape(says)}" title="{escape(says)}">{marks}</div>'


def _memory_gauge(memory: Values) -> str:
    """Draw the memory of both scripts as two bars, the upper one of the script that the part begins with."""
    sides = [("before", memory["before_bytes"]), ("after", memory["after_bytes"])]
    most = max(each for _, each in sides if each is not None)
    bars = "".join(
        f'<i class="{side}" style="width:{each / most:.2%}"></i>' for side, each in sides if each is not None
    )
    says = escape(f"{_from_to(memory)} of tensors at the peak")
    return f'<div class="gauge memory" role="img" aria-label="{says}" title="{says}">{bars}</div>'


def _from_to(memory: Values) -> str:
    """Return the memory before and after: "155 → 23 MiB"."""
    after = f"{memory['after_bytes'] / 2**20:.0f} MiB"
    return after if memory["before_bytes"] is None else f"{memory['before_bytes'] / 2**20:.0f} → {after}"


def _why_no_gain(part: Values) -> str:
    shown = part["shown"]
    if not shown:
        return "no check of it was kept" if part["done"] else ""
    if shown["unraced"]:
        return f"no speedup: {shown['unraced']}"
    if shown["case"] and shown["speed"]:
        return f"no speedup: it was raced only against {_original(shown)}"
    return str(shown["unlooked"])


def _explanation(parts: Sequence[Values]) -> str:
    shown = [part["shown"] for part in parts if part["shown"]]
    says = [EXPLANATION] if any(each["gain"] for each in shown) else []
    says += [OF_MEMORY] if any(each["memory"] for each in shown) else []
    return quiet(" ".join(says)) if says else ""


def _details(part: Values) -> str:
    """Say how a part was checked: the verdict, why, the rates, and where the time went before and after."""
    shown, last = part["shown"], part["last"]
    when = f"{shown['script']}, {_date(shown['at'])}: {shown['headline']}, in {_seconds(shown['seconds'])}."
    if part["checks"] > 1:
        when += f" This is one of {part['checks']} checks"
        when += f"; the last, {_date(last['at'])}: {last['headline']}." if last["at"] != shown["at"] else ", the last."
    if part["minutes"] is not None:
        when += f" Solved {part['minutes']:.0f} minutes after the script was given."
    reasons = [*shown["reasons"], *_measured(shown), *filter(None, [shown["unlooked"], shown["busy"]])]
    listed = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    content = f"{quiet(escape(when))}<ul>{listed}</ul>"
    if shown["memory"]:
        content += f'<div class="race">{"".join(_memory(shown["memory"]))}</div>'
    if shown["speed"]:
        content += f'<div class="race">{"".join(_race(shown))}</div>'
    for name, share in shown["shares"].items():
        colour = _COLOURS.get(name, "var(--operator)")
        content += bar(name, [(colour, min(share, 1.0), name)], f"{share:.0%}")
    heading = f"<h2>{escape(_name(part))}</h2>"
    return f'<section class="details" id="{_anchor(part)}">{heading}{content}</section>'


def _measured(check: Values) -> Iterator[str]:
    """Yield a sentence for what was timed, and one for the race."""
    if timing := check["timing"]:
        yield (
            f"{timing['of']}: {_short_seconds(timing['before_s'])} with {timing['before']}, "
            f"{_short_seconds(timing['after_s'])} with {timing['after']}; medians of {timing['runs']} runs each"
        )
    if speed := check["speed"]:
        yield (
            f"{speed['candidate']} against {_original(check)}: {speed['text']}, the mean of {speed['pairs']} pairs; "
            f"with 95 % it is {speed['may_be']}; target: {speed['target']:g}x"
        )


def _original(check: Values) -> str:
    """Return what a script was raced against; a script of a part with many, against the one without the fault."""
    original = check["speed"]["original"]
    return f"the {original}, which is the solution" if check["case"] else str(original)


def _memory(memory: Values) -> Iterator[str]:
    """Yield a bar for the memory of each script, and one for the limit, to one scale."""
    yield "<h3>Memory of all tensors at the peak</h3>"
    rows = {f"before: {memory['before']}": memory["before_bytes"], f"after: {memory['after']}": memory["after_bytes"]}
    rows["the limit"] = memory["limit_bytes"]
    most = max(row for row in rows.values() if row is not None)
    for label, each in rows.items():
        if each is not None:
            colour = "var(--rest)" if label == "the limit" else "var(--memory)"
            yield bar(label, [(colour, each / most, label)], f"{each / 2**20:.1f} MiB")


def _race(check: Values) -> Iterator[str]:
    """Yield the bars of both epochs to one scale, by phase, and the rates."""
    speed, is_busy = check["speed"], bool(check["busy"])
    before, after = ("the solution", "yours") if check["case"] else ("before", "after")
    sides = {"before": speed["original"], "after": speed["candidate"]}
    called = {"before": before, "after": after}
    longest = max(sum(speed[f"phases_{side}"].values()) for side in sides) or 1.0
    shown = [name for name in speed["phases_before"] if any(speed[f"phases_{side}"].get(name) for side in sides)]
    yield f"<h3>Seconds for {escape(speed['stretch'])}</h3>"
    yield keys(colours := {name: _COLOURS.get(name, "var(--rest)") for name in shown})
    for side, name in sides.items():
        phases = {each: speed[f"phases_{side}"].get(each, 0.0) for each in shown}
        parts = [(colours[each], seconds / longest, f"{each}: {seconds:.2f} s") for each, seconds in phases.items()]
        says = f"{sum(phases.values()):.2f} s, {speed[f'rate_{side}']:.1f} samples/s"
        yield bar(f"{called[side]}: {name}", parts, says)
    figures = ([f"{speed[f'phases_{side}'].get(each, 0.0):.2f}" for side in sides] for each in shown)
    yield table(("s", before, after), ([name, *both] for name, both in zip(shown, figures, strict=True)))
    if speed["headroom_rate"]:
        rough, reached = about(is_busy), speed["rate_after"] / speed["headroom_rate"]
        says = f"With batches in memory, the loop reaches {rough}{speed['headroom_rate']:.1f} samples/s"
        yield quiet(f"{says}; the script reaches {rough}{reached:.0%} of it.")


def _lines(runs: Values) -> str:
    """Show the hottest lines of a script before its edits, and after."""
    before, after = runs["before"], runs["after"]
    alone = "" if after else quiet("No line profile of the script after an edit was kept.")
    shown = {"before": before, "after": after} if after else {"": before}
    columns = "".join(f"<div>{_profile(side, run)}</div>" for side, run in shown.items())
    more = f"after, the lines ran {runs['more_hits']:.2g}x as often. Compare the time of a hit."
    length = quiet(f"The runs differ in length: {more}") if runs["more_hits"] != 1 else ""
    return f'{length}<div class="sides">{columns}</div>{alone}'


def _profile(side: str, run: Values) -> str:
    command = f", of {run['command']}" if run["command"] else ""
    heading = f"{run['script']}, {side}" if side else run["script"]
    made = quiet(f"{escape(run['profile'] + command)}, {_date(run['at'])}")
    content = f"<h3>{escape(heading)}</h3>{made}"
    for function in run["functions"]:
        rows = (
            f'<tr style="--heat:{line["share"]:.3f}"><td>{line["line"]}</td><td>{line["hits"]:,}</td>'
            f"<td>{1e3 * line['seconds'] / max(line['hits'], 1):,.2f}</td>"
            f"<td>{line['seconds']:.2f}</td><td>{line['share']:.0%}</td><td><code>{escape(line['text'])}</code></td></tr>"
            for line in function["lines"]
        )
        header = ("line", "hits", "ms a hit", "s", "share", escape(f"{function['name']}, {function['seconds']:.2f} s"))
        content += table(header, rows, "hot")
    return content


def _pages(pages: Sequence[Values], folder: Path) -> str:
    """List pages with links that lead from a folder; they work as long as the files lie where they are."""
    rows = []
    for each in pages:
        link = Path(os.path.relpath(each["path"], folder)).as_posix()
        name = f'<a href="{escape(quote(link))}">{escape(link)}</a>'
        size = f"{max(each['bytes'] / 1e6, 0.1):.1f} MB"
        cells = (escape(each["made_by"]), escape(each["title"]), size, _date(each["at"]))
        rows.append(f"<tr><td>{name}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    note = quiet("These are files of their own: whoever is to see them needs them beside this page.")
    return table(("file", "made by", "what it shows", "size", "date"), rows, "texts") + note


def _machines(checks: Sequence[Values]) -> Iterator[str]:
    """Yield a table for each machine, with the versions and the checks that ran there."""
    groups: dict[str, list[Values]] = {}
    for check in checks:
        groups.setdefault(str((check["machine"], check["versions"], check["device"])), []).append(check)
    for of_one in groups.values():
        machine, versions = of_one[0]["machine"], of_one[0]["versions"]
        gpus = machine["gpus"]
        rows = {
            "processor": f"{machine['processor']}, {machine['usable_cores']} usable cores",
            "memory": f"{machine['memory_bytes'] / 1e9:.0f} GB",
            "GPU": ", ".join(gpus) if gpus else "no NVIDIA GPU",
            "system": machine["system"],
            "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        }
        if of_one[0]["device"]:
            rows["--device"] = of_one[0]["device"]
        if len(groups) > 1:
            names = dict.fromkeys(_short(each) for each in of_one)
            rows["checks"] = f"{len(of_one)}, from {_date(of_one[0]['at'])}: {', '.join(names)}"
        cells = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
        yield f'<table class="facts">{"".join(cells)}</table>'


def _checks(checks: Sequence[Values]) -> str:
    """List the last hundred checks, the newest first, and the number of the others."""
    rows, shown = [], checks[-100:]
    for each in reversed(shown):
        gain, memory = each["gain"], each["memory"]
        found = f"{gain['text']} ({gain['interval']})" if gain else "not measured" if each["unraced"] else ""
        found = _from_to(memory) if memory else found
        rows.append((_date(each["at"]), _short(each), each["state"], found, _seconds(each["seconds"])))
    more = len(checks) - len(shown)
    note = quiet(f"{more} earlier ones are left out.") if more > 0 else ""
    return table(("date", "part", "verdict", "speedup, memory", "it took"), rows, "texts") + note


def _name(part: Values) -> str:
    number = part["part"].removeprefix("part")
    return f"Part {number}: {part['title']}" + (f" ({part['case']})" if part["case"] else "")


def _short(check: Values) -> str:
    return f"{check['part']} ({check['case']})" if check["case"] else str(check["part"])


def _anchor(part: Values) -> str:
    return escape("-".join(filter(None, [part["part"], part["case"]])))


def _date(at: str) -> str:
    """Return a date as a person writes it: 4 May 2030, 10:20."""
    date = datetime.fromisoformat(at)
    return f"{date.day} {date:%B %Y, %H:%M}"


def _short_seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1e3:.1f} ms"


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return "less than 1 s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
