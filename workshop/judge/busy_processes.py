"""The other programs on a machine, which make measurements noisy."""

from pathlib import Path

import psutil

BUSY_PERCENT = 10


def advice() -> str:
    """Return a sentence that says what to close before measuring again."""
    me = psutil.Process()
    own = {me.pid, *(child.pid for child in me.children(recursive=True))}
    others = [process for process in psutil.process_iter() if process.pid not in own]
    for process in others:
        _percent(process)  # the first call only starts the measurement
    psutil.cpu_percent(interval=1.0)
    busiest = sorted(((_percent(each), each.pid, each) for each in others), reverse=True)[:3]
    names = [
        f"{_command(process)} (process {pid}, {percent:.0f} % of a core)"
        for percent, pid, process in busiest
        if percent >= BUSY_PERCENT
    ]
    return f"Close {', '.join(names)} and try again." if names else "Try again when the machine is quiet."


def _command(process: psutil.Process) -> str:
    """Return a program's name, followed by the name of the script that it runs, if any."""
    try:
        script = next((Path(each).name for each in process.cmdline()[1:] if not each.startswith("-")), "")
        return f"{process.name()} {script}".strip()
    except psutil.Error:
        return "a program"


def _percent(process: psutil.Process) -> float:
    try:
        return float(process.cpu_percent(None))
    except psutil.Error:
        return 0.0
