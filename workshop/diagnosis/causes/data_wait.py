"""Causes in the loading of data: the lines of items and of collating, and the settings of the DataLoader."""

from functools import partial

from workshop import noise
from workshop.diagnosis.findings import LITTLE, MIN_GAIN, Finding, finding, gain_of
from workshop.diagnosis.loading import BUSY, LARGE_BATCH, MEGABYTE, Loading, cores, starts_workers, weight
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Sample
from workshop.diagnosis.user_lines import hottest
from workshop.probe.observations import Role
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame
from workshop.runs.measured_steps import MeasuredSteps

NEARLY = 1.2
"""Numbers of workers whose step times differ by less than this factor are equally good."""

DOMINATES = 0.6
"""A line with more than this share of the loading is the one to fix; otherwise more workers help all lines."""

OF_LOADING = 1.05
"""Loading costs at most this many times what was seen: steps without it, or with other workers, were measured."""

FROM_MEMORY = "estimated from the time of its call, and from steps with batches from memory"


def data_wait_findings(measurement: Measurement) -> list[Finding]:
    """Return the bottlenecks of the loading; none if training does not wait for data."""
    loading = Loading(measurement)
    if not loading.matters:
        return []
    lines = [*_lines(loading), *_single_items(loading)]
    settings = [each for each in _other_settings(loading) if each.gain >= MIN_GAIN]
    if settings and settings[0].gain > NEARLY and _distorts(settings[0], loading):
        return settings
    dominates = any(each.share > DOMINATES * loading.share for each in lines)
    first = max((each.gain for each in lines), default=1.0)
    return [*lines, *(each for each in settings if each.gain < first)] if dominates else settings or lines


_LINE_WORDS = {
    "slow-item": "Make this line cheaper, or, where it draws no random numbers, do its work once and keep the result.",
    "slow-collate": "This line joins the items of a batch: do it for all of them at once, or as each is loaded.",
}


def _lines(loading: Loading) -> list[Finding]:
    """The hottest line of items, and the hottest of the collate function."""
    if loading.workers and loading.busy_share < BUSY and not loading.hinders:
        return []
    all_of_it = weight(loading.samples if not loading.workers else loading.busy) or 1.0
    collate = loading.loader.collate if loading.loader else ("", "")
    found = []
    for cause, collates in (("slow-item", False), ("slow-collate", True)):
        line = hottest(loading.user_paths(partial(_is_collating, collate, collates)))
        if line is None or line.weight / all_of_it < LITTLE:
            continue
        part = line.weight / all_of_it
        whole = line.of_call / all_of_it if part > DOMINATES else part
        shares = {frame.line or 0: seconds / all_of_it * loading.share for frame, seconds in line.beside.items()}
        found.append(
            finding(
                cause,
                _LINE_WORDS[cause],
                gain=gain_of(loading.steps.ms_a_step, _ms_without(loading, whole)),
                margin=OF_LOADING if loading.measurement.headroom else None,
                max_gain=loading.max_gain(loading.measurement.headroom),
                phase=Phase.DATA_WAIT,
                path=line.path,
                process="worker" if loading.workers else "training",
                ms_a_step=part * loading.share * loading.steps.ms_a_step,
                share=part * loading.share,
                basis=FROM_MEMORY if loading.measurement.headroom else "estimated from the time of its call",
                beside={number: share for number, share in sorted(shares.items()) if share >= LITTLE},
            )
        )
    return found


def _ms_without(loading: Loading, part: float) -> float:
    """Milliseconds per step without this part of the loading."""
    step_ms, least_ms = loading.steps.ms_a_step, loading.computing_ms
    if not loading.workers:
        return least_ms + step_ms * loading.share * (1.0 - part)
    if loading.hinders:
        return least_ms + (step_ms - least_ms) * (1.0 - part)
    return max(least_ms, step_ms * (1.0 - part))


def _single_items(loading: Loading) -> list[Finding]:
    """Batches that are put together from single samples, if it was faster to take each at once."""
    whole, step_ms = loading.measurement.whole_batches, loading.steps.ms_a_step
    if not (whole and loading.loader and _is_real(loading, whole, 1)):
        return []
    if (least := gain_of(step_ms, whole.ms_a_step)) < MIN_GAIN:
        return []
    size, max_gain = loading.loader.singles, loading.max_gain(whole)
    saved = 1.0 - 1.0 / max_gain
    return [
        finding(
            "single-items",
            f"Each batch is put together from {size} single samples, which are in memory: take it out of the tensors "
            "at once, as tensor[indices] does. DataLoader(dataset, batch_size=None, sampler=BatchSampler(RandomSampler("
            f"dataset), {size}, drop_last=False)) gives the same batches as shuffle=True does. "
            f"With whole batches, without workers, a step took {whole.ms_a_step:.1f} ms instead of {step_ms:.1f}.",
            gain=max_gain,
            low=least,
            max_gain=max_gain,
            phase=Phase.DATA_WAIT,
            path=loading.made,
            ms_a_step=saved * step_ms,
            share=saved,
            measured=True,
        )
    ]


def _other_settings(loading: Loading) -> list[Finding]:
    """The finding on the best number of workers that was tried; none if it gains nothing."""
    tried, step_ms = loading.measurement.with_workers, loading.steps.ms_a_step
    if not tried:
        return []
    workers = _best(loading)
    if not _is_real(loading, tried[workers], len(tried)):
        return []
    best_ms, max_gain = tried[workers].ms_a_step, loading.max_gain(tried[workers])
    cause, words = _why(loading, workers)
    words = f"{words}, a step took {best_ms:.1f} ms instead of {step_ms:.1f}"
    gain = gain_of(step_ms, best_ms)
    if gain > max_gain:
        words = f"{words}; loading cannot explain all of this difference"
    saved = 1.0 - 1.0 / min(gain, max_gain)
    return [
        finding(
            cause,
            f"{words}. {_what_changes(loading, cause)}",
            gain=gain,
            margin=OF_LOADING,
            max_gain=max_gain,
            phase="" if cause == "worker-contention" else Phase.DATA_WAIT,
            path=_where_restarted(loading) if cause == "worker-restarts" else loading.made,
            ms_a_step=saved * step_ms,
            share=saved,
            measured=gain <= max_gain,
        )
    ]


def _is_real(loading: Loading, after: MeasuredSteps, tried: int) -> bool:
    """Return whether this difference, out of `tried`, is more than chance; a single block of steps cannot tell.

    That a step takes long in which workers are started is no chance: the noise is that of the other steps.
    """
    both = [[sum(block.values()) for block in each.blocks_ms] for each in (loading.steps, after)]
    if min(map(len, both)) < 2:
        return False
    change, between = noise.change(*both), loading.between_restarts_ms
    if len(between) > 1:
        usual = noise.change(between, both[1])
        change = change._replace(error=usual.error, freedom=usual.freedom)
    return bool(change.is_real(tried))


def _distorts(settings: Finding, loading: Loading) -> bool:
    """Whether lines of workers look hot only because workers wait for a core, or to hand over a batch."""
    if settings.cause == "worker-contention":
        return loading.workers > cores()
    return settings.cause in ("large-batches", "worker-restarts")


def _best(loading: Loading) -> int:
    """The number of workers nearest to the script's among those that are nearly as good as the best.

    If keeping the workers helps, their number is not the problem.
    """
    tried, now = loading.measurement.with_workers, loading.workers
    if loading.restarts and now in tried and loading.steps.ms_a_step > NEARLY * tried[now].ms_a_step:
        return now
    least_ms = min(each.ms_a_step for each in tried.values())
    good = [workers for workers, each in tried.items() if each.ms_a_step <= NEARLY * least_ms]
    return min(good, key=lambda workers: abs(workers - now))


def _why(loading: Loading, workers: int) -> tuple[str, str]:
    """Return the cause, and in words why this number of workers is better than the script's."""
    now, step_ms = loading.workers, loading.steps.ms_a_step
    helps = {number for number, each in loading.measurement.with_workers.items() if step_ms > NEARLY * each.ms_a_step}
    if workers > now:
        return "few-workers", f"With num_workers={workers} instead of {now}"
    if loading.restarts and workers == now:
        restarts = f"Workers are started anew {loading.restarts} times in {loading.steps.count} steps."
        return "worker-restarts", f"{restarts} With one DataLoader that keeps them (persistent_workers=True)"
    if loading.batch_bytes > LARGE_BATCH and helps == {0}:
        moved = f"A batch of {loading.batch_bytes / MEGABYTE:.1f} MB takes long to be moved from a worker."
        return "large-batches", f"{moved} With num_workers=0"
    who = "The worker competes" if now == 1 else f"The {now} workers compete"
    threads = ", one thread each" * (workers > 0)
    return "worker-contention", f"{who} with the training for the cores. With num_workers={workers}{threads}"


def _what_changes(loading: Loading, cause: str) -> str:
    """Say what another number of workers, or workers that are kept, change in what is trained on."""
    says = ["Items that draw random numbers then draw others."]
    if cause == "worker-restarts" and loading.is_remade:
        says.append("Change what the DataLoaders differ in, such as their samples, in the sampler of that one.")
    if cause in ("worker-restarts", "few-workers") and loading.changes:
        says.append("The script changes the dataset between epochs, which workers that are kept do not see.")
    return " ".join(says)


def _where_restarted(loading: Loading) -> tuple[Frame, ...]:
    """Return the line that makes the DataLoader; where its iterators are left before their end, the line that does."""
    steps, frames = loading.steps, loading.observations.user_frames
    batches = loading.loader.batches if loading.loader else None
    if not batches or loading.restarts * batches <= steps.batches + batches:
        return loading.made
    samples = loading.observations.of(Role.TRAINING, steps.began_s, steps.ended_s)
    line = hottest(
        (frames(each.stack), each.weight_s)
        for each in samples
        if each.phase == Phase.DATA_WAIT or starts_workers(each.stack)
    )
    return line.path if line else loading.made


def _is_collating(function: tuple[str, str], collates: bool, sample: Sample) -> bool:
    return collates == any((frame.name, frame.path) == function for frame in sample.stack)
