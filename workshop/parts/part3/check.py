"""Part 3: any way of loading that is fast enough will do."""

from workshop.harness.bench import PartBench
from workshop.harness.verdict import Verdict


def check(bench: PartBench) -> Verdict:
    """The same work, and faster."""
    bench.start()
    return bench.refusal() or bench.race()
