"""Watches what some lines of the script are run with, and what they make: how often, how large, and whether again.

A trace function of Python, in the frames of these lines alone, looks at their variables as each run begins and ends.
No property or other code of the script's is called for it. Of the values, a sum and a sample are kept, on their device.
"""

import ast
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import CO_GENERATOR
from io import FileIO  # the script may replace `open`
from statistics import median
from time import monotonic  # the script may replace that of the module
from types import CodeType, FrameType
from typing import Any, TypeAlias

import torch

from workshop.probe.event_file import EventFile
from workshop.probe.internals import frame_above, locals_of
from workshop.probe.line_operands import KeptOperand, kept, value_of
from workshop.probe.messages import WatchedLine
from workshop.probe.observations import LineRuns, Operand
from workshop.probe.random_states import names_of_states
from workshop.probe.trials.watcher import Watcher

MAX_RUNS = 32
MAX_LOOK_S = 0.1
"""Runs of a line in a step whose operands are looked at, and seconds of a step for all of that, at most."""

COPIES_VARIABLES = sys.version_info < (3, 13)
"""Whether Python copies the variables of a frame to call a trace function, and keeps the copy. Later ones do not, and
3.13.0 crashes where those of a generator that is over are asked for (cpython#125723)."""

LOADED = 4
"""The batches whose loading is watched."""

Trace: TypeAlias = Callable[[FrameType, str, Any], Any]


class _Run:
    """A run of a statement: what is kept of its operands."""

    def __init__(self, reads: dict[str, KeptOperand], drawn: dict[str, int]) -> None:
        self.reads, self.writes = reads, dict[str, KeptOperand]()
        self.drawn, self.is_over, self.written = drawn, False, _written()


class _Statement:
    """A statement that is watched, and its runs."""

    def __init__(self, line: WatchedLine) -> None:
        self.line = line
        self.reads, self.writes = _parsed(line.reads), _parsed(line.writes)
        self.steps = self.runs = self.in_step = 0
        self.turns: Counter[int] = Counter()  # by the instruction that a loop inside of it comes back to
        self.draws = self.with_gradients = False
        self.written = list[int]()  # the bytes of each run
        self.present = list[_Run]()
        self._operands: dict[tuple[bool, str], _OperandRuns] = {}

    def end_step(self) -> None:
        """Compare the runs of a step with each other, and with those of earlier steps."""
        for run in [each for each in self.present if each.is_over]:
            for is_written, kept_of in ((False, run.reads), (True, run.writes)):
                for name, operand in kept_of.items():
                    before = run.reads.get(name) if is_written else None
                    self._operands.setdefault((is_written, name), _OperandRuns(operand)).add(operand, before)
        for each in self._operands.values():
            each.end_step()
        self.present = [each for each in self.present if not each.is_over]
        self.steps += self.in_step > 0
        self.in_step = 0

    def operands(self, are_written: bool) -> tuple[Operand, ...]:
        """Return what is known of those that it reads, or writes."""
        found = [(name, each) for (is_written, name), each in self._operands.items() if is_written == are_written]
        return tuple(
            Operand(
                name,
                *each.largest.facts,
                same_run=(each.as_before, each.with_before),
                same_step=(each.as_earlier, each.with_earlier),
                longer=each.longer,
                different=each.different,
                grown=each.grown,
            )
            for name, each in found
        )


class _OperandRuns:
    """How often an operand was the same as before.

    Attributes:
        largest: the largest that there was.
        as_before: in how many runs it was the same as in an earlier run of that step, and
        with_before: of how many.
        as_earlier: in how many runs it was the same as in a run of an earlier step, and
        with_earlier: of how many.
        longer: in how many runs it was larger than in the one before, and of how many; in a step with several, of it.
        different: how many of its rows differed in all runs, and how many there were.
        grown: in how many runs it was larger than before them, and by how many bytes in all.
    """

    def __init__(self, first: KeptOperand) -> None:
        self.largest = first
        self.as_before = self.with_before = self.as_earlier = self.with_earlier = 0
        self.longer = self.different = self.grown = 0, 0
        self._last: KeptOperand | None = None
        self._runs = 0
        self._in_step, self._earlier = set[object](), set[object]()

    def add(self, operand: KeptOperand, before: KeptOperand | None) -> None:
        """Add a run of the present step; `before` is what it was before that run, of one that is read and written."""
        self.largest = max(self.largest, operand, key=lambda each: each.size)
        self._runs += 1
        value = operand.value
        self.as_before += value in self._in_step
        self.with_before += bool(self._in_step)
        self.as_earlier += value in self._earlier
        self.with_earlier += bool(self._earlier)
        self._in_step.add(value)
        if self._last:
            self.longer = self.longer[0] + (operand.size > self._last.size), self.longer[1] + 1
        if operand.different:
            self.different = self.different[0] + operand.different, self.different[1] + operand.length
        self._last = operand
        if before and operand.size > before.size:
            self.grown = self.grown[0] + 1, self.grown[1] + operand.size - before.size

    def end_step(self) -> None:
        """Go on to the next step."""
        self._earlier.update(self._in_step)
        self._in_step.clear()
        self._last = None if self._runs > 1 else self._last
        self._runs = 0


class HotLines(Watcher):
    """Watches statements from when it is made until its end; where somebody else traces the script, it does nothing.

    Args:
        events: where it notes what it has seen.
        lines: the statements.
        trainer: the process that trains; None for this one.
    """

    def __init__(self, events: EventFile, lines: tuple[WatchedLine, ...], trainer: int | None = None) -> None:
        super().__init__(events)
        self._trainer = trainer or os.getpid()
        self._statements = [_Statement(each) for each in lines]
        self._files = {each.file for each in lines}
        self._at = {(each.line.file, at): each for each in reversed(self._statements) for at in _lines(each.line)}
        self._codes: dict[int, tuple[CodeType, _Code | None]] = {}
        self._frames: dict[int, FrameType] = {}
        self._pid, self._looked_s = os.getpid(), 0.0
        self._trace: Trace = self._enter  # one object, as it is compared
        self._is_on = sys.gettrace() is None
        if self._is_on:
            self._begin()

    def _begin(self) -> None:
        frame: FrameType | None = frame_above(2)
        while frame is not None:
            if frame.f_code.co_filename in self._files and frame.f_trace is None:
                frame.f_trace = self._enter(frame, "call", None)
            frame = frame.f_back
        sys.settrace(self._trace)

    def end(self) -> None:
        """Stop, let no frame keep what was looked at, and note what was seen."""
        super().end()
        is_known = self._is_on
        self._stop()
        if is_known:
            self._note()

    def _note(self) -> None:
        for each in self._statements:
            line = each.line
            self.events.write(
                LineRuns,
                file=line.file,
                line=line.line,
                steps=each.steps,
                runs=each.runs - each.in_step,
                turns=max(each.turns.values(), default=0),
                reads=each.operands(False),
                writes=each.operands(True),
                draws=each.draws,
                with_gradients=each.with_gradients,
                trainer=self._trainer,
                written=int(median(each.written)) if each.written else 0,
            )

    def _stop(self) -> None:
        self._is_on = False
        if sys.gettrace() == self._trace:
            sys.settrace(None)
        for frame in self._frames.values():
            frame.f_trace = None
            if COPIES_VARIABLES:
                locals_of(frame)
        self._frames.clear()

    def on_step_end(self, steps: int) -> None:
        """Compare what was looked at."""
        super().on_step_end(steps)
        self._looked_s = 0.0
        for each in self._statements:
            each.end_step()

    def while_loading(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield batches, each of which is a step; note what was seen after each, as its process may be killed."""
        for number, batch in enumerate(batches, start=1):
            if number <= LOADED:
                self.on_step_end(number)
                self._note()
            if number == LOADED:
                self._stop()
            yield batch

    # What Python calls

    def _enter(self, frame: FrameType, event: str, _: Any) -> Trace | None:
        """Return what traces the lines of a frame, if some are watched; generators that are resumed come here again."""
        code = frame.f_code
        if code.co_flags & CO_GENERATOR and self._is_on and COPIES_VARIABLES:
            self._frames[id(frame)] = frame
        if code.co_filename not in self._files:
            return None
        if os.getpid() != self._pid or not self._is_on:  # forked, as a worker, or given up
            sys.settrace(None)
            return None
        watched = self._codes.get(id(code))
        if watched is None:
            watched = self._codes[id(code)] = code, _Code.of(code, self._at)
        if watched[1] is None:
            return None
        self._frames[id(frame)] = frame
        return _FrameTrace(self, watched[1]).trace

    def left(self, frame: FrameType) -> None:
        """Keep a frame that is over no longer."""
        if not frame.f_code.co_flags & CO_GENERATOR:
            self._frames.pop(id(frame), None)

    def failed(self, error: Exception) -> None:
        """Give up after a fault: the script goes on, and nothing is said of its lines."""
        self.events.lose(error)
        self._is_on = False

    def is_on(self) -> bool:
        """Return whether lines are still watched."""
        return self._is_on

    def begun(self, statement: _Statement, frame: FrameType) -> _Run | None:
        """Look at what a run of a statement reads, unless enough was looked at in this step."""
        statement.runs += 1
        statement.in_step += 1
        statement.with_gradients |= torch.is_grad_enabled()
        if statement.in_step > MAX_RUNS or self._looked_s > MAX_LOOK_S or _is_captured():
            return None
        begin = monotonic()
        run = _Run(_looked_at(statement.reads, frame), names_of_states())
        statement.present.append(run)
        self._looked_s += monotonic() - begin
        return run

    def ended(self, statement: _Statement, run: _Run, frame: FrameType, returned: Any) -> None:
        """Look at what a run has written."""
        if _is_captured():
            return
        begin = monotonic()
        run.writes = _looked_at([each for each in statement.writes if each[0] != "return"], frame)
        if statement.line.writes == ("return",) and (result := kept(returned)) is not None:
            run.writes["return"] = result
        statement.draws |= names_of_states() != run.drawn
        statement.written.append(_written() - run.written)
        run.is_over = True
        self._looked_s += monotonic() - begin


class _Code:
    """The code of a function: its watched statements by line, and the instructions with which their runs begin."""

    def __init__(self, at: dict[int, _Statement], begins: frozenset[int], is_part: bool) -> None:
        self.at, self.begins, self.is_part = at, begins, is_part

    @classmethod
    def of(cls, code: CodeType, at: dict[tuple[str, int], _Statement]) -> "_Code | None":
        """Return what is watched in a code; None for nothing. A comprehension, or a lambda, is part of a statement."""
        found, begins, present = dict[int, _Statement](), set[int](), None
        for start, _, line in code.co_lines():
            statement = at.get((code.co_filename, line)) if line else present
            if statement is not None and line:
                found[line] = statement
                begins.update({start} if statement is not present else ())
            present = statement
        is_part = code.co_name.startswith("<") and code.co_name != "<module>"
        return cls(found, frozenset(begins), is_part) if found else None


class _FrameTrace:
    """Tells the runs of statements in a frame."""

    def __init__(self, watch: HotLines, code: _Code) -> None:
        self._watch, self._code = watch, code
        self._open: _Statement | None = None
        self._run: _Run | None = None

    def trace(self, frame: FrameType, event: str, argument: Any) -> Trace | None:
        """Hear of a line, a return or an exception; what is raised here would reach the script."""
        try:
            if self._watch.is_on():
                self._hear(frame, event, argument)
                return self.trace
        except Exception as error:
            self._watch.failed(error)
        return None

    def _hear(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "line":
            statement, begins = self._code.at.get(frame.f_lineno), frame.f_lasti in self._code.begins
            if statement is not None and (self._code.is_part or (statement is self._open and not begins)):
                statement.turns[frame.f_lasti] += 1
                return
            self._close(frame, None)
            if statement is not None and begins:
                self._open, self._run = statement, self._watch.begun(statement, frame)
        elif event == "return":
            self._close(frame, argument)
            self._watch.left(frame)

    def _close(self, frame: FrameType, returned: Any) -> None:
        if self._open is not None and self._run is not None:
            self._watch.ended(self._open, self._run, frame, returned)
        self._open = self._run = None


def _lines(line: WatchedLine) -> range:
    return range(line.line, line.last + 1)


def _parsed(names: tuple[str, ...]) -> list[tuple[str, ast.expr]]:
    return [(name, ast.parse(name, mode="eval").body) for name in names if name != "return"]


def _looked_at(names: list[tuple[str, ast.expr]], frame: FrameType) -> dict[str, KeptOperand]:
    """Return what is kept of those names that have a value."""
    found, variables = dict[str, KeptOperand](), (frame.f_locals, frame.f_globals)
    with torch.no_grad():
        for name, expression in names:
            try:
                operand = kept(value_of(expression, variables))
            except Exception:  # it is not there yet, or is like nothing else
                continue
            if operand is not None:
                found[name] = operand
    return found


def _written() -> int:
    """Return the bytes that this process has written to files so far; 0 where the system does not tell."""
    with suppress(OSError), FileIO("/proc/self/io") as file:
        return int(next(line for line in file if line.startswith(b"wchar:")).split()[1])
    return 0


def _is_captured() -> bool:
    """Whether what is computed goes into a graph of CUDA."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
