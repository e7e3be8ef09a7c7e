"""Scripts that do nothing but hand over recorded evidence, in made-up time: whole checks are tried in no time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from judge.recorded_evidence import BATCH, FOLDER, ITEMS, STEPS, WASTED_S, load

from workshop.course import checks
from workshop.judge import contest, running_scripts
from workshop.judge.judged_script import JudgedScript, TimedEpoch
from workshop.probe import wire
from workshop.probe.events import BatchCopied, Event, StepTaken
from workshop.probe.messages import EpochReport, Proceed, Recomputation, Repetition
from workshop.probe.phases import Phase
from workshop.runs.other_load import LoadMeter, OtherLoad


@dataclass(frozen=True)
class Replay:
    """What is replayed: the evidence of a part's scripts, by the names of their files."""

    part: str
    evidence: Mapping[str, str] = field(default_factory=dict)
    """Which evidence a script has; by default that of its own name."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each epoch of a script takes; by default a second."""
    epochs: int | None = None
    """Of two runs of one script, the first has so many of the recorded epochs, and the second has the others."""
    copied: str = ""
    """Whether each batch is copied to the device "ahead", before the model gets the one before it, or "in time"."""
    printed: str = ""
    load: OtherLoad = field(default_factory=lambda: OtherLoad(2, 0.0))
    """What other programs use of the cores meanwhile."""


class ReplayedScript(JudgedScript):
    """A script of which each epoch is over at once.

    What talks to a process is replaced; `process` is whatever is not None from the beginning of a run to its end.
    """

    replay: ClassVar[Replay]
    by_file: ClassVar[dict[Path, Any]] = {}
    trained: ClassVar[list[tuple[str, float]]] = []
    """The epochs of all scripts of a check, each with the name of its file and its seconds."""
    keeps_batches = False

    def begin(self, sample_step: int | None = None) -> None:
        name = Path(self.command[0]).stem
        self.seconds = self.replay.seconds.get(name, 1.0)
        self.recorded = load(FOLDER / f"{self.replay.part}.xz", self.replay.evidence.get(name, name))
        events = self.recorded.ranks[int(self.environment.get("RANK", 0)) % len(self.recorded.ranks)]
        if self.replay.epochs is not None:
            end = [event.t for event in events if isinstance(event, StepTaken)][STEPS * self.replay.epochs - 1]
            events = [event for event in events if event.t <= end] if not self.runs else of_second_run(events, end)
        if self.replay.copied:
            events = [*events, *copies(events, self.replay.copied == "ahead")]
        self.work_folder.mkdir(exist_ok=True)
        (self.folder / f"{self.runs}.jsonl").write_text("".join(f"{wire.encode(event)}\n" for event in events))
        self.transforms = [self.folder / f"transform-{number}.pickle" for number in range(len(self.recorded.repeated))]
        self.by_file.update(zip(self.transforms, self.recorded.repeated, strict=True))
        self.epochs_in_run = self.steps_in_run = 0
        self.output: Any = SimpleNamespace(text=lambda: self.replay.printed)
        self.process: Any = self.recorded
        (self.folder / f"{self.runs}.claimed").touch()

    def epoch(self, proceed: Proceed | None = None, pause: bool = True) -> TimedEpoch:
        proceed = proceed or Proceed()
        if self.process is None:
            self.begin()
        self.keeps_batches |= proceed.keep_batches
        assert self.keeps_batches or not proceed.from_memory, "there is nothing to hand out from memory"
        results = self.recorded.recomputed
        sample = self.folder / f"sample-{self.epochs_in_run}"
        if results:
            self.by_file[sample] = results[self.epochs_in_run % len(results)]
        phases = {phase.value: self.seconds * (phase is Phase.DATA_WAIT) for phase in Phase}
        report = EpochReport(True, STEPS, phases, str(sample) if results else None, self.recorded.replaced_clocks, 0)
        self.trained.append((Path(self.command[0]).stem, self.seconds))
        self.epochs_in_run += 1
        self.steps_in_run += STEPS
        self.epoch_steps = STEPS
        return TimedEpoch(self.seconds, report, self.steps_in_run - STEPS)

    def recompute(self, *samples: Path) -> Recomputation:
        return self.by_file[samples[0]]

    def recorded_transforms(self) -> list[Path]:
        return self.transforms

    def repeat(self, files: Iterable[Path]) -> dict[Path, Repetition]:
        return {path: self.by_file[path] for path in files}

    def pause(self) -> None:
        pass

    def stop(self) -> None:
        self.process = None


def copies(events: Iterable[Event], ahead: bool) -> list[BatchCopied]:
    """The copies of batches to the device, which the evidence has not; times are whole numbers there."""
    batches = [forward for event in events if isinstance(event, StepTaken) for forward in event.forwards]
    times = [each.t for each in (batches[:1] + batches if ahead else batches)]
    return [BatchCopied(t - 0.5, 1, 1, each.pictures, 7) for t, each in zip(times, batches, strict=False)]


def of_second_run(events: Iterable[Event], begin: float) -> list[Event]:
    later = [event for event in events if event.t > begin]
    return [replace(event, run_index=1) if isinstance(event, StepTaken) else event for event in later]


def replay(patch: pytest.MonkeyPatch, what: Replay) -> None:
    """Have the checks of a part replay evidence, which was taken of smaller epochs than theirs."""
    made_config, made_contest = checks.config_of, checks.contest_of
    small = {"batch_size": BATCH, "max_items": ITEMS, "wasted_time": WASTED_S}

    def contest_of(*known: Any) -> contest.Contest:
        found = made_contest(*known)
        return replace(found, options={**found.options, "epoch_steps": STEPS})

    patch.setattr(ReplayedScript, "replay", what, raising=False)
    patch.setattr(ReplayedScript, "trained", [])
    patch.setattr(LoadMeter, "_measured", lambda _: what.load)
    patch.setattr(checks, "config_of", lambda *known: replace(made_config(*known), **small))
    patch.setattr(checks, "contest_of", contest_of)
    for module in (contest, running_scripts):
        patch.setattr(module, "JudgedScript", ReplayedScript)
