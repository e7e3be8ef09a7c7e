"""What the scripts of `tests/cheats/compare` and `tests/honest/compare` did, beside their originals: recorded once.

    PYTHONPATH=tests:. python tests/judge/recorded_inputs.py [NAME ...]

replaces the files: all of them, or those of some scripts.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from judge.recorded_evidence import FOLDER, TESTS, Recorded

from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import events_in
from workshop.probe.events import Event, ForwardPass, ItemsDrawn, LoaderStarted, Signatures, StepTaken
from workshop.processes.script import run_folder

INPUTS = FOLDER / "compare"
EPOCHS = {"long": 3, "meters": 6, "sentences": 3, "stream": 3, "table": 3}
"""The number of epochs of each original, and of what is compared with it; otherwise 4."""

STEPS = {"long": 40, "meters": 15, "rivals": 15, "stream": 40}
"""The number of steps of an epoch, where it is not that of the DataLoader."""

ORIGINALS = sorted((TESTS / "originals").glob("*.py"))
CHEATS, HONEST = (
    [path for path in sorted((TESTS / kind / "compare").glob("*.py")) if path.stem != "variation"]
    for kind in ("cheats", "honest")
)


def original_of(script: str) -> str:
    """The name of a script begins with that of its original."""
    return script.partition("_")[0]


def record_inputs(script: Path) -> Recorded:
    """Let a script train, and keep what says something about its inputs."""
    steps = STEPS.get(original_of(script.stem))
    with run_folder() as folder, JudgedScript([str(script)], folder, work_folder=folder, epoch_steps=steps) as run:
        for _ in range(EPOCHS.get(original_of(script.stem), 4)):
            run.epoch()
        if script in ORIGINALS:
            run.draw_items()
        return Recorded([list(map(_smaller, filter(_is_kept, events_in(folder))))], [], [], [])


def _is_kept(event: Event) -> bool:
    return isinstance(event, (StepTaken, LoaderStarted, ItemsDrawn))


def _smaller(event: Event) -> Event:
    """Leave out the signatures, which are those of the same values."""
    if isinstance(event, ItemsDrawn):
        return replace(event, drawn=_without_signatures(event.drawn))
    if not isinstance(event, StepTaken):
        return event
    forwards, others = (tuple(map(_without_signatures, each)) for each in (event.forwards, event.other_inputs))
    return replace(event, forwards=forwards, other_inputs=others, parameter=(0.0,))


def _without_signatures(forward: ForwardPass) -> ForwardPass:
    inputs = forward.inputs
    assert inputs
    is_table = forward.dtype == "float32"
    inputs = replace(inputs, sketches=_rounded(inputs.sketches, 8), values=_rounded(inputs.values, 11 + 2 * is_table))
    return replace(forward, pictures=Signatures((forward.shape[0], 0), b""), inputs=inputs)


def _rounded(values: bytes, bits: int) -> bytes:
    """Round to fewer bits, which makes the files smaller."""
    whole = np.frombuffer(values, np.uint32)
    return ((whole + (1 << bits - 1)) >> bits << bits).astype(np.uint32).tobytes()


def main(names: list[str]) -> None:
    """Record everything, or some."""
    INPUTS.mkdir(exist_ok=True)
    for path in [*ORIGINALS, *CHEATS, *HONEST]:
        if not names or path.stem in names:
            record_inputs(path).save(INPUTS / f"{path.stem}.jsonl.gz")
            print(path.stem, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
