"""How busy other programs keep a machine while something is measured: it makes measured times longer."""

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

import psutil

from workshop.probe.own_limits import usable_cores
from workshop.runs.again_and_again import again_and_again
from workshop.runs.machine import core_quota, group_seconds

BUSY_SHARE = 0.1
"""Share of the usable cores, at least, that other programs use on a busy machine."""

MAX_SLOWDOWN = 4.0
"""Factor, at most, by which other programs slow a thread down: the system gives each thread a share of the cores."""

MIN_PERCENT, MAX_PROGRAMS = 10.0, 3
"""Percent of a core, at least, of a program that is named, and the most that are."""

LOOK_EVERY_S = 1.0
"""Seconds between two looks at the processes that are measured: one that ends between two is seen by then."""

MIN_SECONDS = 1.0
"""Seconds, at least, of which anything is said: the system counts the time of a core in hundredths of a second."""


@dataclass(frozen=True)
class Program:
    """A program that does not belong to what is measured."""

    name: str
    """The name of its process, and of the script that it runs, if any."""
    pid: int
    percent: float
    """How much of a core it used on average, in percent."""


@dataclass(frozen=True)
class OtherLoad:
    """What other programs used of the cores while something was measured."""

    usable_cores: float
    """The cores that the run may use, or as many cores' time as the quota of its container allows."""
    other_cores: float | None = None
    """How many of the usable cores they used on average; None where the system does not tell."""
    programs: tuple[Program, ...] = ()
    """The busiest of them, the busiest first; those that came and went meanwhile are not among them."""

    @property
    def busy(self) -> bool:
        """Whether they used so much that the measured times are longer than on a quiet machine."""
        return self.other_cores is not None and self.other_cores >= BUSY_SHARE * self.usable_cores

    @property
    def slows_by(self) -> float:
        """How many times longer a thread takes that shares the cores with the other programs; 1 on a quiet machine."""
        if not self.busy or self.other_cores is None:
            return 1.0
        return min(self.usable_cores / max(self.usable_cores - self.other_cores, 1e-9), MAX_SLOWDOWN)

    def __str__(self) -> str:
        """Return the sentence that every instrument says of a busy machine; an empty text for a quiet one."""
        if not self.busy:
            return ""
        return (
            f"Busy machine: other programs used {self._part} meanwhile{self._above_all}. "
            "On a quiet machine these times are shorter."
        )

    @property
    def warning(self) -> str:
        """The sentence that is said on a busy machine before a race; an empty text for a quiet one."""
        if not self.busy:
            return ""
        return (
            f"Other programs use {self._part}{self._above_all}: this takes longer than on a quiet machine, and may end "
            "undecided."
        )

    @property
    def _part(self) -> str:
        return f"{self.other_cores:.1f} of {self.usable_cores:g} core{'s' * (self.usable_cores != 1)}"

    @property
    def _above_all(self) -> str:
        return f", above all {self.programs[0].name} (process {self.programs[0].pid})" if self.programs else ""

    @property
    def advice(self) -> str:
        """A sentence that says what to close before measuring again, or what to wait for; "" on a quiet machine."""
        if self.most:
            return f"Close {self.most} and try again."
        if not self.busy:
            return ""
        return f"Other programs used {self._part}{self._above_all}: try again when they have ended."

    @property
    def most(self) -> str:
        """The programs that use most, for a sentence; empty if those that are known use less than half of it."""
        if sum(each.percent for each in self.programs) < 50 * (self.other_cores or 0.0):  # many small ones
            return ""
        return ", ".join(f"{each.name} (process {each.pid}, {each.percent:.0f} % of a core)" for each in self.programs)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"programs": [asdict(each) for each in self.programs], "busy": self.busy}

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return what `as_dict` has made plain values of."""
        programs = tuple(Program(**each) for each in values["programs"])
        return cls(values["usable_cores"], values["other_cores"], programs)


def about(busy: bool) -> str:
    """Return what stands before a figure that is derived from times, such as a potential speedup, if they are unsure.

    That is the rule for all of them: where the machine was busy, they are said to be rough.
    """
    return "about " if busy else ""


class LoadMeter:
    """Watches the cores from its creation to `end`; this process and all that descends from it are not "others".

    A process that was seen once belongs to what is measured also when it has lost its parent, as does whatever is in
    its process group. Of processes that nobody waits for, only what was seen of them is known.
    """

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._own_s: dict[psutil.Process, float] = {}
        self._own_before_s: dict[psutil.Process, float] = {}
        self._looking = ExitStack()
        self._result: OtherLoad | None = None
        self._begin_s = time.monotonic()
        self._busy_s = busy_seconds()
        self._used_s = _seconds_of_all()
        self._tree_s = self._look()
        self._own_before_s = dict(self._own_s)
        self._looking.enter_context(again_and_again(self._look, LOOK_EVERY_S))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> OtherLoad:
        """Return what others used until now, or until this was asked first; the processes must still run."""
        if self._result is None:
            self._looking.close()
            self._result = self._measured()
        return self._result

    def so_far(self) -> OtherLoad:
        """Return what others have used until now, and go on."""
        if self._result:
            return self._result
        self._looking.close()
        found = self._measured()
        self._looking.enter_context(again_and_again(self._look, LOOK_EVERY_S))
        return found

    def _measured(self) -> OtherLoad:
        quota = _quota()
        cores = usable_cores() if quota is None else quota
        tree_s, busy_s = self._look(), busy_seconds()
        passed_s = time.monotonic() - self._begin_s
        if busy_s is None or self._busy_s is None or passed_s < MIN_SECONDS:
            return OtherLoad(cores)
        seen_s = sum(self._own_s.values()) - sum(self._own_before_s.values())
        own_s = max(tree_s - self._tree_s, seen_s)  # the former lacks orphans, the latter what came and went unseen
        others = min(max((busy_s - self._busy_s - own_s) / passed_s, 0.0), float(cores))
        found = OtherLoad(cores, round(others, 2), self._programs(passed_s))
        return found if found.busy or quota is None else OtherLoad(cores)  # nobody tells what runs beside the container

    def _programs(self, passed_s: float) -> tuple[Program, ...]:
        """Return the busiest of the other programs."""
        used_s = {
            process: seconds - self._used_s.get(process, 0.0)
            for process, seconds in _seconds_of_all().items()
            if process not in self._own_s
        }
        busiest = sorted(used_s, key=used_s.__getitem__, reverse=True)[:MAX_PROGRAMS]
        percents = {process: 100.0 * used_s[process] / passed_s for process in busiest}
        return tuple(
            Program(_name(process), process.pid, round(percent, 1))
            for process, percent in percents.items()
            if percent >= MIN_PERCENT
        )

    def _look(self) -> float:
        """Note the CPU time of each process that is measured; return that of those that run and what they waited for.

        If a child ends and its parent has waited for it, its time is added to the parent's: the sum stays the same.
        """
        total_s = 0.0
        for process in self._own_processes():
            with suppress(psutil.Error, OSError):
                times = process.cpu_times()
                self._own_s[process] = times.user + times.system
                total_s += times.user + times.system + times.children_user + times.children_system
        return total_s

    def _own_processes(self) -> list[psutil.Process]:
        """Return this process, its descendants, and those that were seen before or share a group with these."""
        mine = os.getpgid(0)
        parents: dict[int, list[psutil.Process]] = {}
        groups: dict[int, list[psutil.Process]] = {}
        for each in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                parents.setdefault(each.ppid(), []).append(each)
                groups.setdefault(os.getpgid(each.pid), []).append(each)
        found = dict.fromkeys([self._me, *(each for each in self._own_s if each.is_running())])
        waiting = list(found)
        while waiting:
            process = waiting.pop()
            related = list(parents.get(process.pid, []))
            with suppress(OSError):
                group = os.getpgid(process.pid)
                # A shell without job control, and what it runs, share the group of this process.
                related += groups.pop(group, []) if group != mine or mine == os.getpid() else []
            waiting += [each for each in related if each not in found]
            found.update(dict.fromkeys(related))
        return list(found)


def _quota() -> float | None:
    """Return how many cores' time a container may use, if that is less than it has cores."""
    quota = core_quota()
    return quota if quota is not None and quota < usable_cores() else None


def busy_seconds() -> float | None:
    """Return how long the usable cores have been busy since the machine started; None where that is not known.

    Where a quota allows less than these cores, it is what all programs have used that share the quota. On macOS neither
    the time of children nor what a virtual machine takes (steal) is told.
    """
    if _quota() is not None:
        return group_seconds()
    try:
        of_cores = psutil.cpu_times(percpu=True)
        usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(of_cores))
        return sum(_busy(of_cores[core]) for core in usable)
    except (psutil.Error, OSError, IndexError, AttributeError):
        return None


def _busy(times: Any) -> float:
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def _seconds_of_all() -> dict[psutil.Process, float]:
    """Return the CPU time of every process that can be looked at."""
    used_s = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            times = process.cpu_times()
            used_s[process] = float(times.user + times.system)
    return used_s


def _name(process: psutil.Process) -> str:
    """Return a program's name, followed by the name of the script that it runs, if any.

    Another `workshop check` is called that, and the scripts that it runs are called its own.
    """
    try:
        if command := _command_of_workshop(process):
            return f"another workshop {command}"
        above = next(filter(None, map(_command_of_workshop, process.parents())), "")
        words = takewhile(lambda word: word != "-c", process.cmdline()[1:])
        script = next((Path(each).name for each in words if not each.startswith("-")), "")
        name = process.name() if script == process.name() else f"{process.name()} {script}".strip()
        return f"{name} of another workshop {above}" if above else name
    except (psutil.Error, OSError):
        return "a program"


def _command_of_workshop(process: psutil.Process) -> str:
    """Return the command of the workshop that a process is, such as "check"; "" for any other program."""
    words = process.cmdline()
    is_python = bool(words) and Path(words[0]).name.startswith("python")
    for place, word in enumerate(words[: 3 if is_python else 1]):
        if Path(word).name == "workshop":
            return next((each for each in words[place + 1 :] if not each.startswith("-")), "")
    return ""
