"""What the scripts of `tests/cheats/compare` and `tests/honest/compare` did, beside their originals: recorded once.

    PYTHONPATH=tests:. python tests/judge/recorded_inputs.py [NAME ...]

replaces the files: all of them, or those of some scripts.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from judge.recorded_evidence import FOLDER, TESTS, Recorded, load, names_in, save

from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import events_in
from workshop.probe.events import Event, ForwardPass, InputRows, ItemsDrawn, LoaderStarted, Signatures, StepTaken
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


def record_inputs(script: Path) -> Recorded:
    """Let a script train, and keep what says something about its inputs."""
    steps = STEPS.get(original_of(script.stem))
    with run_folder() as folder, JudgedScript([str(script)], folder, work_folder=folder, epoch_steps=steps) as run:
        for _ in range(EPOCHS.get(original_of(script.stem), 4)):
            run.epoch()
        if script in ORIGINALS:
            run.draw_items()
        return Recorded([list(map(smaller, filter(_is_kept, events_in(folder))))], [], [], [])


def _is_kept(event: Event) -> bool:
    return isinstance(event, (StepTaken, LoaderStarted, ItemsDrawn))


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
        scripts = [each for each in (original, *CHEATS, *HONEST) if original_of(each.stem) == original.stem]
        chosen = [script for script in scripts if not names or script.stem in names]
        recorded = {name: load(path, name) for name in names_in(path)} if names and path.exists() else {}
        for script in chosen:
            recorded[script.stem] = record_inputs(script)
            print(script.stem, flush=True)
        if chosen:
            save(path, recorded)


if __name__ == "__main__":
    main(sys.argv[1:])
