"""What the scripts of `tests/cheats/compare` and `tests/honest/compare` did, beside their originals: recorded once.

    PYTHONPATH=tests:. python tests/judge/recorded_inputs.py [NAME ...]

replaces the files: all of them, or those of some scripts.
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from judge.recorded_evidence import FOLDER, TESTS, Recorded, load, names_in, save

from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger, events_in
from workshop.judge.step_proof import alike
from workshop.probe.events import (
    Event,
    ForwardPass,
    InputRows,
    ItemsDrawn,
    LoaderStarted,
    SamplerDrawn,
    Signatures,
    StepTaken,
)
from workshop.probe.messages import Proceed
from workshop.runs.script import run_folder

INPUTS = FOLDER / "compare"
EPOCHS = {"long": 3, "meters": 6, "sentences": 3, "stream": 3, "table": 3}
"""The number of epochs of each original, and of what is compared with it; otherwise 4."""

STEPS = {"long": 40, "meters": 15, "rivals": 15, "stream": 40}
"""The number of steps of an epoch, where it is not that of the DataLoader."""

DROPPED_BITS = 13
"""So many bits of the mantissa of a value are rounded off."""

ORIGINALS = sorted((TESTS / "originals").glob("*.py"))
CHEATS, HONEST = (
    [path for path in sorted((TESTS / kind / "compare").glob("*.py")) if path.stem != "variation"]
    for kind in ("cheats", "honest")
)


def original_of(script: str) -> str:
    """The name of a script begins with that of its original."""
    return script.partition("_")[0]


def file_of(script: str) -> Path:
    """The file with what a script did, and all others with the same original."""
    return INPUTS / f"{original_of(script)}.xz"


@contextmanager
def running(script: Path) -> Iterator[JudgedScript]:
    """A script that has not begun."""
    steps = STEPS.get(original_of(script.stem))
    with (
        run_folder() as folder,
        JudgedScript([str(script)], folder, work_folder=folder, epoch_steps=steps) as run,
    ):
        yield run


def record_inputs(script: JudgedScript, original: JudgedScript) -> Recorded:
    """Let a script train, and keep what says something about its inputs; its original takes some of its steps again."""
    dice, samples = random.Random(0), []
    for _ in range(EPOCHS.get(original_of(original.name.removesuffix(".py")), 4)):
        numbers = script.alike or range(script.epoch_steps or 0)
        epoch = script.epoch(Proceed(dice.choice(numbers) if numbers else None))
        samples += [epoch.sample] if epoch.sample else []
        script.alike = script.alike or alike(Ledger.of(script.folder).steps)
    if script is original:
        script.draw_items()
    elif not original.epochs_in_run:
        original.epoch()
    recomputed = [original.recompute(sample) for sample in samples]
    return Recorded([list(map(smaller, filter(_is_kept, events_in(script.folder))))], recomputed, [], [])


def _is_kept(event: Event) -> bool:
    return isinstance(event, (StepTaken, LoaderStarted, SamplerDrawn, ItemsDrawn))


def smaller(event: Event) -> Event:
    """Leave out the signatures, which are those of the same values."""
    if isinstance(event, ItemsDrawn):
        return replace(event, drawn=_smaller_pass(event.drawn))
    if not isinstance(event, StepTaken):
        return event
    forwards, others = (tuple(map(_smaller_pass, each)) for each in (event.forwards, event.other_inputs))
    return replace(event, forwards=forwards, other_inputs=others)


def _smaller_pass(forward: ForwardPass) -> ForwardPass:
    """Round the values, which makes the files smaller; the probe's notes of them are made anew as a file is read."""
    inputs = forward.inputs
    assert inputs
    if not inputs.rows:  # of pictures, there are signatures
        return forward
    assert len(inputs.rows) == forward.shape[0], "all values are noted"
    values = inputs.values
    if forward.dtype == "float32":
        whole = np.frombuffer(values, np.uint32)
        values = ((whole + (1 << DROPPED_BITS - 1)) >> DROPPED_BITS << DROPPED_BITS).astype(np.uint32).tobytes()
    inputs = InputRows(inputs.rows, b"", inputs.width, values)
    return replace(forward, pictures=Signatures((forward.shape[0], 0), b""), inputs=inputs)


def main(names: list[str]) -> None:
    """Record everything, or some."""
    INPUTS.mkdir(exist_ok=True)
    for original in ORIGINALS:
        path = file_of(original.stem)
        scripts = [each for each in (*CHEATS, *HONEST) if original_of(each.stem) == original.stem]
        chosen = [each for each in (original, *scripts) if not names or each.stem in names]
        recorded = {name: load(path, name) for name in names_in(path)} if names and path.exists() else {}
        with running(original) as run:
            for script in chosen:
                with running(script) as other:
                    recorded[script.stem] = record_inputs(run if script is original else other, run)
                print(script.stem, flush=True)
        if chosen:
            save(path, recorded)


if __name__ == "__main__":
    main(sys.argv[1:])
