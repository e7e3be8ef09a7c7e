"""What was seen of a run whose first training step is waited for, or never came, in a sentence."""

from pathlib import Path

from workshop.probe import wire
from workshop.probe.activity import SUFFIX
from workshop.probe.observations import ProcessActivity


def describe_activities(folder: Path) -> str:
    """Return what the processes of a run have done with torch so far, and what was not seen of a training step."""
    seen = sorted(activities(folder), key=activity, reverse=True)
    if not seen:
        return "no process has loaded torch"
    if faults := [each for each in seen if each.fault]:
        return f"the workshop's probe failed in process {faults[0].pid}: {faults[0].fault}"
    active = [each for each in seen if activity(each)]
    if not active:
        where = f"process {seen[0].pid} ({seen[0].script})" if len(seen) == 1 else f"{len(seen)} processes"
        return f"torch is loaded in {where}, but no batch of a DataLoader, forward or backward pass was seen"
    named, others = active[:3], len(active[3:])
    return "; ".join(map(_describe, named)) + (f"; {others} other processes did likewise" if others else "")


def counted_activities(folder: Path) -> str:
    """Return the same in a few words, for a line of progress: it is cut at the width of the terminal."""
    seen = activities(folder)
    if not any(map(activity, seen)):
        return "torch is loaded, no training yet" if seen else "torch is not loaded yet"
    counts = {
        "batches": sum(each.batches for each in seen),
        "forward": sum(each.forwards for each in seen),
        "backward": sum(each.backwards for each in seen),
        "optimizer": sum(each.optimizer_steps for each in seen),
    }
    if not counts["batches"]:  # many scripts make their own
        del counts["batches"]
    active = sum(bool(activity(each)) for each in seen)
    return ", ".join(f"{name} {count}" for name, count in counts.items()) + f", in {active} processes" * (active > 1)


def _describe(seen: ProcessActivity) -> str:
    counts = [
        _count(seen.batches, "batch of a DataLoader", "batches of a DataLoader"),
        _count(seen.forwards, "forward pass", "forward passes"),
        _count(seen.backwards, "backward pass", "backward passes"),
        _count(seen.optimizer_steps, "step of a torch optimizer", "steps of a torch optimizer"),
    ]
    where = f"; {seen.transformed} of the forward passes inside of torch.func (grad, vmap), where no model can be seen"
    return f"process {seen.pid} ({seen.script}): {', '.join(counts)}{where if seen.transformed else ''}"


def _count(number: int, one: str, several: str) -> str:
    return f"{number or 'no'} {one if number < 2 else several}"


def activity(seen: ProcessActivity) -> int:
    """Return how much a process was seen doing."""
    return seen.batches + seen.forwards + seen.backwards + seen.optimizer_steps


def activities(folder: Path) -> list[ProcessActivity]:
    """Return what each process has done that has loaded torch."""
    return [wire.decode(path.read_text(encoding="utf-8")) for path in folder.glob(f"*{SUFFIX}")]
