"""Evidence of what scripts did, recorded once and kept in files, so that the proof can be tried in milliseconds.

`pytest -m slow tests/judge/test_proof.py` records that of some scripts anew and compares the verdicts. After a change
to what the probe notes, the files are replaced by

    python tests/judge/recorded_evidence.py
"""

import gzip
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from threading import Lock

from workshop.course.checks import config_of, contest_of
from workshop.judge.contest import Contest
from workshop.judge.judged_ranks import JudgedRanks
from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger, as_event, events_in
from workshop.judge.picture_proof import check_stock
from workshop.judge.proof import differences
from workshop.judge.sampled_steps import NOTHING_SEEN
from workshop.parts import SOLUTIONS, find_part
from workshop.probe import wire
from workshop.probe.events import Event
from workshop.probe.messages import Recomputation, Repetition
from workshop.processes.script import ScriptError

TESTS = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "evidence"

ITEMS, BATCH, WASTED_S = 11, 4, 0.02
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

    def save(self, path: Path) -> None:
        """Write a file; it is the same for the same evidence."""
        others = len(self.recomputed) + len(self.repeated)
        ranks = [len(events) for events in self.ranks]
        head = json.dumps({"ranks": ranks, "clocks": self.replaced_clocks, "others": others})
        messages = [*self.recomputed, *self.repeated, *(event for events in self.ranks for event in events)]
        with gzip.GzipFile(path, "wb", mtime=0) as file:
            file.write("\n".join([head, *map(wire.encode, messages)]).encode())

    @classmethod
    def load(cls, path: Path) -> "Recorded":
        """Read a file that `save` has written."""
        first, *lines = gzip.decompress(path.read_bytes()).splitlines()
        head = json.loads(first)
        others, events = map(wire.decode, lines[: head["others"]]), map(as_event, lines[head["others"] :])
        by_kind = {kind: list(each) for kind, each in groupby(others, type)}
        return cls(
            [list(islice(events, size)) for size in head["ranks"]],
            by_kind.get(Recomputation, []),
            by_kind.get(Repetition, []),
            head["clocks"],
        )

    def differences(self, original: "Recorded") -> list[str]:
        """What the judge says of it."""
        reference = Ledger.of_events(original.ranks[0])
        candidate = Ledger.of_ranks([Ledger.of_events(events) for events in self.ranks])
        candidate.recomputed, candidate.repeated = self.recomputed, self.repeated
        candidate.replaced_clocks = self.replaced_clocks
        found = differences(reference, candidate, WASTED_S if reference.reads else None)
        if not found and len(self.ranks) == 1 and len(candidate.steps) > STEPS:  # the race: all epochs but the first
            found = list(check_stock(reference, candidate, (candidate.steps[STEPS - 1].t, candidate.steps[-1].t)))
        return found


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
            folder = FOLDER / part
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.glob("*.gz"):
                old.unlink()
            for name, recorded in record(part, Path(data), SCRIPTS[part]):
                recorded.save(folder / f"{name}.jsonl.gz")
                print(part, name, flush=True)


if __name__ == "__main__":
    main()
