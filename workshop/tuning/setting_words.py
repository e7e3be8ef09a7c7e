"""Settings of a DataLoader in words, what became of those that were tried, and why some are taken, or none."""

from dataclasses import replace

from workshop.probe.loader_settings import LoaderSettings
from workshop.tuning.loader_edit import arguments_for, threads_for
from workshop.tuning.setting_search import MIN_GAIN, SettingSearch
from workshop.tuning.tried_setting import TriedSetting

REPEATS = "iterable and does not ask for its worker, so each worker would go through all of it"
TO_TAKE = "to take"
"""What becomes of the settings to take."""

NOT_FASTER = "no other setting is 5 % faster for certain."
STOPPED = "stopped by Ctrl-C, before any setting was tried."


def in_words(settings: LoaderSettings, present: LoaderSettings) -> str:
    """Return settings as the arguments of a DataLoader: the number of workers, and what else differs."""
    wanted = {"num_workers": str(settings.workers)} | arguments_for(settings, present)
    threads = [threads_for(settings)] * bool(settings.threads)
    return ", ".join([*(f"{name}={value}" for name, value in wanted.items()), *threads])


def with_outcomes(search: SettingSearch) -> tuple[TriedSetting, ...]:
    """Return what was tried, each with what became of it."""
    taken, now = search.taken, search.of(search.present)
    best = min((each for each in search.tried.values() if each.known), key=lambda each: each.ms, default=None)

    def outcome(tried: TriedSetting) -> str:
        if tried.why_not:
            return tried.why_not
        if taken and tried is search.of(taken.settings):
            return TO_TAKE
        if tried is now:
            return "as it is"
        if not tried.known:
            return "not tried"
        if taken and tried is best:
            return f"hardly faster than {_told_from(tried, taken.settings)}, and costs more"
        if taken and search.is_slower(tried, taken):
            return f"slower than {_told_from(tried, taken.settings)}"
        return f"not clearly faster than {_told_from(tried, taken.settings) if taken else 'as it is'}"

    return tuple(replace(each, became=outcome(each)) for each in search.tried.values())


def _told_from(tried: TriedSetting, settings: LoaderSettings) -> str:
    """Return the name of settings beside others: the first thing in a row of the table that differs."""
    if settings.workers != tried.settings.workers:
        return f"{settings.workers} worker{'s' * (settings.workers != 1)}"
    if settings.prefetch_factor != tried.settings.prefetch_factor:
        return f"a prefetch of {settings.prefetch_factor}"
    return "the one to take"


def is_faster(speedup: float, settings: LoaderSettings, present: LoaderSettings, rough: str = "") -> str:
    """Return that a step is faster with settings; `rough` stands before the figure."""
    return f"{_faster(speedup, rough)} with {in_words(settings, present)}."


def no_headroom(speedup: float, rough: str = "") -> str:
    """Return that a step is hardly faster with batches from memory; `rough` stands before the figure."""
    return f"with batches from memory, {_faster(max(speedup, 1.0), rough)}: no setting can gain 5 %."


def repeats_already(where: str, workers: int) -> str:
    """Return that the workers of a DataLoader all load the same items, and what to do."""
    return (
        f"the dataset of {where} is iterable and does not ask for its worker: each of the {workers} workers goes "
        f"through all of it, so every item comes {workers} times. Share it out first, with get_worker_info()."
    )


def no_answer(search: SettingSearch) -> str:
    """Return why a search has found no answer; empty if it has found that nothing is faster."""
    present = search.of(search.present)
    if not present.blocks_ms:
        return f"{present.why_not or 'nothing was tried to the end'}."
    chosen = search.chosen
    if chosen.settings != search.present and search.now.ms >= MIN_GAIN * chosen.ms:
        what = f"{in_words(chosen.settings, search.present)} may be {search.gain(chosen):.2f}x faster, or it is"
        if (slower := search.slows_by()) > 1:
            return f"busy machine: {what} the other programs, which may have made steps {slower:.2f}x as long."
        return f"{what} noise."
    return ""


def _faster(speedup: float, rough: str) -> str:
    return f"a step is {rough}{speedup:.2f}x faster"
