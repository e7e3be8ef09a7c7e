"""Causes in the loading of data: the lines of items and of collating, and the settings of the DataLoader."""

from workshop import noise
from workshop.diagnosis.call_words import inside, often, same, says, wasted
from workshop.diagnosis.findings import MIN_GAIN, MIN_SHARE_OF_STEP, Finding, finding, gain_of
from workshop.diagnosis.hot_calls import HotCalls
from workshop.diagnosis.loading import LARGE_BATCH, MEGABYTE, MIN_BUSY, Loading, cores, starts_workers, weight
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.user_lines import MAIN_SHARE, HotLine, Path, hottest
from workshop.diagnosis.watched_lines import loop_around
from workshop.probe.cause import Cause
from workshop.probe.observations import Role
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame
from workshop.runs.measured_steps import MeasuredSteps

SLOW_ITEM = Cause(
    "slow-item",
    "Make this line cheaper, or, where it draws no random numbers, do its work once and keep the result.",
)
DRAWS = "This draws random numbers{says}, so that what it makes cannot be kept: make it cheaper.{wasted}"
NO_DRAWS = (
    "Nothing was drawn from the global random generators in this{says}: where it makes the same of an item in each "
    "epoch, keep that, or make the line cheaper.{wasted}"
)
SLOW_COLLATE = Cause(
    "slow-collate",
    "This joins the items of a batch: do it for all of them at once, or as each is loaded.",
)
IN_COLLATE = "This is called as the items of a batch are joined{says}: make it cheaper.{wasted}"
COLLATES = "This joins the items of a batch{says}: do it for all of them at once, or as each is loaded.{wasted}"
SINGLE_ITEMS = Cause(
    "single-items",
    "Each batch is put together from {size} single samples, which are in memory: take it out of the tensors at once, "
    "as tensor[indices] does. DataLoader(dataset, batch_size=None, sampler=BatchSampler(RandomSampler(dataset), "
    "{size}, drop_last=False)) gives the same batches as shuffle=True does. With whole batches, without workers, a "
    "step took {whole_ms:.1f} ms instead of {step_ms:.1f}.",
)

_TOOK = (
    ", a step took {best_ms:.1f} ms instead of {step_ms:.1f}{unexplained}. Items that draw random numbers then draw "
    "others.{changes}"
)

FEW_WORKERS = Cause("few-workers", "With num_workers={workers} instead of {own_workers}" + _TOOK)
WORKER_RESTARTS = Cause(
    "worker-restarts",
    "Workers are started anew {restarts} times in {steps} steps. With one DataLoader that keeps them "
    "(persistent_workers=True)" + _TOOK,
)
LARGE_BATCHES = Cause(
    "large-batches", "A batch of {batch_mb:.1f} MB takes long to be moved from a worker. With num_workers=0" + _TOOK
)
WORKER_CONTENTION = Cause(
    "worker-contention", "{who} with the training for the cores. With num_workers={workers}{threads}" + _TOOK
)
OF_WORKERS = [each.name for each in (FEW_WORKERS, WORKER_RESTARTS, LARGE_BATCHES, WORKER_CONTENTION)]
"""The causes that a trial with a different number of workers can show."""

EQUALLY_GOOD = 1.2
"""The factor, at most, by which step times differ with numbers of workers that are equally good."""

FROM_MEMORY = "estimated from the time of its call, and from steps with batches from memory"


def data_wait_findings(measurement: Measurement) -> list[Finding]:
    """Return the bottlenecks of the loading; none if training does not wait for data."""
    loading = Loading(measurement)
    if not loading.matters:
        return []
    lines = [*_lines(loading), *_single_items(loading)]
    settings = [each for each in _other_settings(loading) if each.gain >= MIN_GAIN]
    if settings and settings[0].gain > EQUALLY_GOOD and _distorts(settings[0], loading):
        return settings
    if any(each.share > MAIN_SHARE * loading.share for each in lines):  # else more workers help all lines
        first = max(each.gain for each in lines)
        settings = [each for each in settings if each.gain < first]
    return [*lines, *settings]


def _lines(loading: Loading) -> list[Finding]:
    """The hottest line of items, and the hottest of the collate function."""
    if loading.workers and loading.busy_share < MIN_BUSY and not loading.hinders:
        return []
    all_of_it = weight(loading.samples if not loading.workers else loading.busy) or 1.0
    calls, found = HotCalls(loading.observations, while_loading=loading.workers > 0), []
    for cause, collates in ((SLOW_ITEM, False), (SLOW_COLLATE, True)):
        line = loading.collate_line if collates else loading.item_line
        if line is None or line.weight / all_of_it < MIN_SHARE_OF_STEP:
            continue
        part = line.weight / all_of_it
        whole = line.of_call / all_of_it if part > MAIN_SHARE else part + sum(line.beside.values()) / all_of_it
        shares = {frame.line or 0: seconds / all_of_it * loading.share for frame, seconds in line.beside.items()}
        found.append(
            finding(
                cause,
                _what_it_does(calls, line, collates, loading.user_paths(lambda _: True)) or cause.words,
                gain=gain_of(loading.steps.ms_a_step, _ms_without(loading, whole)),
                margin=1.0 if loading.measurement.headroom else None,
                max_gain=loading.max_gain(loading.measurement.headroom),
                phase=Phase.DATA_WAIT,
                path=line.path,
                process="worker" if loading.workers else "training",
                ms_a_step=part * loading.share * loading.steps.ms_a_step,
                share=part * loading.share,
                basis=FROM_MEMORY if loading.measurement.headroom else "estimated from the time of its call",
                beside={number: share for number, share in sorted(shares.items()) if share >= MIN_SHARE_OF_STEP},
            )
        )
    return found


def _what_it_does(calls: HotCalls, line: HotLine, collates: bool, paths: list[tuple[Path, float]]) -> str:
    """Say what a line was seen to do; empty if it was not watched."""
    seen = calls.at(line.frame)
    rest = wasted(calls, line.frame) or inside(calls, line.path, paths)
    if seen and seen.is_same_again:
        return same(seen)
    if seen and collates:
        is_called = sum(not frame.name.startswith("<") for frame in line.path) > 1
        return (IN_COLLATE if is_called else COLLATES).format(says=says(seen), wasted=rest)
    if seen and seen.is_on_rows and (loop_around(*seen.place) or not seen.is_run_often):  # each item is made by itself
        return often(seen)[1] + rest
    draws = seen and (seen.seen.draws or any(each.form in ("Generator", "Random") for each in seen.seen.reads))
    return (DRAWS if draws else NO_DRAWS).format(says=says(seen), wasted=rest) if seen else ""


def _ms_without(loading: Loading, part: float) -> float:
    """Milliseconds per step without this part of the loading."""
    step_ms, least_ms = loading.steps.ms_a_step, loading.computing_ms
    if not loading.workers:
        return least_ms + step_ms * loading.share * (1.0 - part)
    if loading.hinders:
        return least_ms + (step_ms - least_ms) * (1.0 - part)
    return max(least_ms, step_ms * (1.0 - part))


def _single_items(loading: Loading) -> list[Finding]:
    """Batches that are put together from single samples, if it was faster to take each at once.

    They were taken without workers. Where as much is gained by leaving out the workers alone, it is not the samples.
    """
    whole, step_ms = loading.measurement.whole_batches, loading.steps.ms_a_step
    if not (whole and loading.loader and _is_real(loading, whole, 1)):
        return []
    alone = loading.measurement.with_workers.get(0) if loading.workers else None
    if alone and alone.ms_a_step < EQUALLY_GOOD * whole.ms_a_step:
        return []
    if (least := gain_of(step_ms, whole.ms_a_step)) < MIN_GAIN:
        return []
    max_gain = loading.max_gain(whole)
    saved = 1.0 - 1.0 / max_gain
    return [
        finding(
            SINGLE_ITEMS,
            SINGLE_ITEMS.words.format(size=loading.loader.singles, whole_ms=whole.ms_a_step, step_ms=step_ms),
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
    best_ms, max_gain, cause = tried[workers].ms_a_step, loading.max_gain(tried[workers]), _why(loading, workers)
    gain = gain_of(step_ms, best_ms)
    saved = 1.0 - 1.0 / min(gain, max_gain)
    words = cause.words.format(
        workers=workers,
        own_workers=loading.workers,
        restarts=loading.restarts,
        steps=loading.steps.count,
        batch_mb=loading.batch_bytes / MEGABYTE,
        who="The worker competes" if loading.workers == 1 else f"The {loading.workers} workers compete",
        threads=", one thread each" * (workers > 0),
        best_ms=best_ms,
        step_ms=step_ms,
        unexplained="; loading cannot explain all of this difference" * (gain > max_gain),
        changes=_what_changes(loading, cause),
    )
    return [
        finding(
            cause,
            words,
            gain=gain,
            max_gain=max_gain,
            phase="" if cause is WORKER_CONTENTION else Phase.DATA_WAIT,
            path=_where_restarted(loading) if cause is WORKER_RESTARTS else loading.made,
            ms_a_step=saved * step_ms,
            share=saved,
            measured=gain <= max_gain,
        )
    ]


def _is_real(loading: Loading, after: MeasuredSteps, tried: int) -> bool:
    """Return whether this difference, out of `tried`, is more than chance; a single block of steps cannot tell.

    Where workers are started anew, epochs are compared, as each has its pause.
    """
    before, others = [[sum(block.values()) for block in each.blocks_ms] for each in (loading.steps, after)]
    usual = loading.rhythm_ms or before
    if not before or min(len(usual), len(others)) < 2:
        return False
    noise_of = noise.change(usual, others)
    return bool(noise_of._replace(mean=noise.change(before, others).mean).is_real(tried))


def _distorts(settings: Finding, loading: Loading) -> bool:
    """Whether lines of workers look hot only because workers wait for a core, or to hand over a batch."""
    if settings.cause == WORKER_CONTENTION.name:
        return loading.workers > cores()
    return settings.cause in (LARGE_BATCHES.name, WORKER_RESTARTS.name)


def _best(loading: Loading) -> int:
    """The number of workers nearest to the script's among those that are nearly as good as the best.

    If keeping the workers helps, their number is not the problem.
    """
    tried, now = loading.measurement.with_workers, loading.workers
    if loading.restarts and now in tried and loading.steps.ms_a_step > EQUALLY_GOOD * tried[now].ms_a_step:
        return now
    least_ms = min(each.ms_a_step for each in tried.values())
    good = [workers for workers, each in tried.items() if each.ms_a_step <= EQUALLY_GOOD * least_ms]
    return min(good, key=lambda workers: abs(workers - now))


def _why(loading: Loading, workers: int) -> Cause:
    """Return why this number of workers is better than the script's."""
    step_ms, tried = loading.steps.ms_a_step, loading.measurement.with_workers
    helps = {number for number, each in tried.items() if step_ms > EQUALLY_GOOD * each.ms_a_step}
    if workers > loading.workers:
        return FEW_WORKERS
    if loading.restarts and workers == loading.workers:
        return WORKER_RESTARTS
    return LARGE_BATCHES if loading.batch_bytes > LARGE_BATCH and helps == {0} else WORKER_CONTENTION


def _what_changes(loading: Loading, cause: Cause) -> str:
    """Say what another number of workers, or workers that are kept, change in what is trained on."""
    says, found, loader = "", loading.observations, loading.loader
    if cause is WORKER_RESTARTS and loader and found.is_remade(loader):
        says += " Change what the DataLoaders differ in, such as their samples, in the sampler of that one."
    if cause in (WORKER_RESTARTS, FEW_WORKERS) and loader and found.changes(loader):
        says += " The script changes the dataset between epochs, which workers that are kept do not see."
    return says


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
