"""Evidence of what scripts did, recorded once and kept in files, so that the proof can be tried in milliseconds.

A file holds what an original did, and all scripts that are compared with it: they share much, and are packed together.
What no check looks at is left out, and what follows from the rest. Tests record some scripts anew, and compare what is
said of them. After a change to what the probe notes, the files are replaced by

    python tests/judge/recorded_evidence.py
"""

import lzma
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from threading import Lock

import msgspec
import torch

from workshop.course.checks import config_of, contest_of
from workshop.judge.contest import Contest
from workshop.judge.draw_proof import check_stock
from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger, events_in
from workshop.judge.reasons import Reason
from workshop.judge.running_scripts import JudgedRanks
from workshop.judge.step_proof import NOTHING_SEEN
from workshop.judge.work_proof import differences
from workshop.parts import SOLUTIONS, find_part
from workshop.probe.events import (
    BatchCopied,
    Event,
    FileWritten,
    ForwardPass,
    InputRows,
    ItemsDrawn,
    StepTaken,
)
from workshop.probe.messages import Recomputation, Repetition
from workshop.probe.noted_step import rows_of
from workshop.runs.script_error import ScriptError

TESTS = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "evidence"

ITEMS, BATCH, WASTED_S = 23, 8, 0.02
STEPS = 3
"""A step of each epoch but the first is taken by the original, another one each time, as in the shortest check."""


def cheats(part: str) -> list[Path]:
    """The scripts that leave work out, or do other work."""
    return _scripts(TESTS / "cheats" / part)


def _scripts(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py")) if path.stem != "variation"]


TRAIN_ALIKE = ("less_validation", "skill_left_out")
"""These cheats of part 12 leave nothing out of the training: see parts/test_part12.py."""

SCRIPTS = {
    "part3": [
        *(SOLUTIONS / f"part{number}.py" for number in (1, 3, 5, 6)),
        *sorted((TESTS / "honest").glob("*.py")),
        *sorted((TESTS / "unseen").glob("*.py")),
        *cheats("part3"),
    ],
    "part10": [
        SOLUTIONS / "part10.py",
        *_scripts(TESTS / "honest" / "part10"),
        *_scripts(TESTS / "unseen" / "part10"),
        *cheats("part10"),
    ],
    "part12": [
        SOLUTIONS / "part12.py",
        *_scripts(TESTS / "honest" / "part12"),
        *(path for path in cheats("part12") if path.stem not in TRAIN_ALIKE),
    ],
}
"""The scripts whose evidence is kept, by the part that judges them."""


@dataclass(frozen=True)
class Recorded:
    """What one script did in a few epochs: the events of each of its ranks, sampled steps, and some transforms."""

    ranks: list[list[Event]]
    recomputed: list[Recomputation]
    repeated: list[Repetition]
    replaced_clocks: list[str]

    @cached_property
    def ledger(self) -> Ledger:
        """All of it, as the judge reads it."""
        ledger = Ledger.of_ranks([Ledger.of_events(events) for events in self.ranks])
        ledger.recomputed, ledger.repeated = self.recomputed, self.repeated
        ledger.replaced_clocks = self.replaced_clocks
        return ledger

    def differences(self, original: "Recorded") -> list[Reason]:
        """What the judge says of it."""
        reference, candidate = original.ledger, self.ledger
        found = differences(reference, candidate, *((WASTED_S, ITEMS) if reference.reads else ()))
        if not found and len(self.ranks) == 1 and len(candidate.steps) > STEPS:  # the race: all epochs but the first
            found = list(check_stock(reference, candidate, (candidate.steps[STEPS - 1].t, candidate.steps[-1].t)))
        return found


class _Packed(msgspec.Struct):
    """A `Recorded` as it is in a file: each event with the name of its class."""

    ranks: list[list[tuple[str, msgspec.Raw]]]
    recomputed: list[Recomputation]
    repeated: list[Repetition]
    replaced_clocks: list[str]


_EVENTS = {kind.__name__: msgspec.msgpack.Decoder(kind) for kind in Event.__subclasses__()}


def save(path: Path, recorded: Mapping[str, Recorded]) -> None:
    """Write a file with what some scripts did, by their names; it is the same for the same evidence."""
    encode = msgspec.msgpack.encode
    packed = {
        name: _Packed(
            [[(type(each).__name__, msgspec.Raw(encode(each))) for each in events] for events in _smaller(of.ranks)],
            of.recomputed,
            of.repeated,
            of.replaced_clocks,
        )
        for name, of in recorded.items()
    }
    path.write_bytes(lzma.compress(encode(packed), preset=9 | lzma.PRESET_EXTREME))


def names_in(path: Path) -> set[str]:
    """Return the names of the scripts in a file."""
    return set(_unpacked(path))


@lru_cache(maxsize=8)
def load(path: Path, name: str) -> Recorded:
    """Return what a script did, from a file that `save` has written; it is shared, and not to be changed."""
    packed = msgspec.msgpack.decode(_unpacked(path)[name], type=_Packed)
    ranks = [[_whole(_EVENTS[kind].decode(fields)) for kind, fields in events] for events in packed.ranks]
    return Recorded(ranks, packed.recomputed, packed.repeated, packed.replaced_clocks)


@cache
def _unpacked(path: Path) -> dict[str, msgspec.Raw]:
    return msgspec.msgpack.decode(lzma.decompress(path.read_bytes()), type=dict[str, msgspec.Raw])


def _smaller(ranks: list[list[Event]]) -> list[list[Event]]:
    """Leave out what no check looks at; instead of its time, each event has its place among all of them."""
    kept = [[event for event in events if not isinstance(event, BatchCopied | FileWritten)] for events in ranks]
    times = {event.t for events in kept for event in events}
    times |= {each.t for events in kept for event in events for each in getattr(event, "forwards", ())}
    place = {t: float(number) for number, t in enumerate(sorted(times))}
    ranks_differ = len(ranks) > 1  # or not: the parameters of one alone say nothing

    def smaller_pass(forward: ForwardPass) -> ForwardPass:
        inputs = forward.inputs
        if inputs and inputs.rows:  # all of them, of which the rest follows
            assert len(inputs.rows) == forward.shape[0]
            inputs = InputRows((), b"", inputs.width, inputs.values)
        return replace(
            forward,
            t=place.get(forward.t, 0.0),
            random_state=None,
            random_seed=None,
            item=None,
            inputs=inputs,
        )

    def smaller(event: Event) -> Event:
        event = replace(event, t=place[event.t])
        if isinstance(event, StepTaken):
            forwards, others = (tuple(map(smaller_pass, each)) for each in (event.forwards, event.other_inputs))
            parameter = event.parameter if ranks_differ or event.parameter is None else (0.0,)
            event = replace(event, forwards=forwards, other_inputs=others, parameter=parameter)
        return replace(event, drawn=smaller_pass(event.drawn)) if isinstance(event, ItemsDrawn) else event

    return [list(map(smaller, events)) for events in kept]


def _whole(event: Event) -> Event:
    """Note again what follows from the values of the inputs, as the probe does."""
    if isinstance(event, StepTaken):
        forwards, others = (tuple(map(_whole_pass, each)) for each in (event.forwards, event.other_inputs))
        return replace(event, forwards=forwards, other_inputs=others)
    return replace(event, drawn=_whole_pass(event.drawn)) if isinstance(event, ItemsDrawn) else event


def _whole_pass(forward: ForwardPass) -> ForwardPass:
    if not forward.inputs or not forward.inputs.values:
        return forward
    values = torch.frombuffer(bytearray(forward.inputs.values), dtype=torch.float32).reshape(forward.shape[0], -1)
    return replace(forward, inputs=rows_of(values.to(getattr(torch, forward.dtype))).fetch())


def record(part: str, data: Path, scripts: list[Path]) -> Iterator[tuple[str, Recorded]]:
    """Let the original and some scripts of a part train, two at a time, and yield what each of them did."""
    contest = _contest(part, data)
    with contest.script(contest.original) as original, ThreadPoolExecutor(2) as threads:
        for _ in range(STEPS + 1):
            original.epoch()
        yield "original", Recorded([events_in(original.folder)], [], [], [])
        one_at_a_time = Lock()

        def train(script: Path) -> tuple[str, Recorded]:
            of_script = replace(contest, candidate=script)
            try:
                return script.stem, _train(of_script, original, one_at_a_time)
            except ScriptError as error:
                error.add_note(f"{script} printed:\n{error.output}")
                raise

        trained = [threads.submit(train, script) for script in scripts]
        try:
            for each in trained:
                yield each.result()
        finally:
            threads.shutdown(cancel_futures=True)


def _train(contest: Contest, original: JudgedScript, one_at_a_time: Lock) -> Recorded:
    with JudgedRanks(contest) as ranks:
        epochs = [ranks.epoch(step) for step in (None, *range(STEPS))]
        samples = [[epoch.sample for epoch in of_ranks if epoch.sample] for of_ranks in epochs]
        with one_at_a_time:
            whole = [each for each in samples if len(each) == contest.ranks]
            recomputed = [original.recompute(*each) for each in whole] or [NOTHING_SEEN]
            files = [path for script in ranks.scripts for path in script.recorded_transforms()]
            repeated = list(original.repeat(files).values())
        clocks = sorted({name for epoch in epochs[-1] for name in epoch.report.replaced_clocks})
        return Recorded([events_in(script.folder) for script in ranks.scripts], recomputed, repeated, clocks)


def _contest(name: str, data: Path) -> Contest:
    """As a check has it, with fewer items, that are not very slow."""
    part = find_part(name)
    config = replace(config_of(part, None), batch_size=BATCH, max_items=ITEMS, wasted_time=WASTED_S)
    contest = contest_of(part, part.solution, config, data, "cpu")
    if not part.own_script:
        return contest
    few = ["--sequences", str(STEPS * part.batch_size)]
    options = {**contest.options, "epoch_steps": STEPS}
    return replace(contest, options=options, command=lambda *run: [*contest.command(*run), *few])


def main() -> None:
    """Record everything, and replace the files."""
    with tempfile.TemporaryDirectory() as data:
        for part in SCRIPTS:
            recorded = {}
            for name, recorded[name] in record(part, Path(data), SCRIPTS[part]):
                print(part, name, flush=True)
            save(FOLDER / f"{part}.xz", recorded)


if __name__ == "__main__":
    main()
