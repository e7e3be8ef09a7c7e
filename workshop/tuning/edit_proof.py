"""The proof of an edit: the edited script against the script, by the judge of `workshop compare`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from workshop.diagnosis.findings import MIN_GAIN
from workshop.errors import WorkshopError
from workshop.judge.bench import Bench
from workshop.judge.contest import MIN_BUDGET_S, of_two_scripts
from workshop.judge.verdict import Outcome, Verdict, broken
from workshop.runs.script import Say
from workshop.runs.script_error import ScriptError
from workshop.tuning.loader_edit import LoaderEdit
from workshop.tuning.tried_settings import SettingOutcome
from workshop.tuning.tuning_result import AdviceKind, AdviceReason, Tuning

REFUSED = {Outcome.OTHER_WORK: AdviceKind.OTHER_WORK, Outcome.BROKEN: AdviceKind.DOES_NOT_RUN}


def with_proof(
    found: Tuning, script: str, arguments: Sequence[str], is_module: bool, seconds: float, say: Say
) -> Tuning:
    """Return what was found with the judge's verdict on its edit; what the judge refuses is not taken.

    Args:
        found: the result of a search.
        script: the script that was tuned.
        arguments: its arguments.
        is_module: whether it is named as in `python -m`.
        seconds: how long the judge may take.
        say: told of the progress.
    """
    if not found.edit:
        return found
    if found.interrupted:
        return replace(found, why_no_proof="the search was stopped by Ctrl-C.")
    if why := _why_not(found.edit, script, is_module, seconds):
        return replace(found, why_no_proof=why)
    try:
        verdict = _judged(found.edit, Path(script), arguments, round(seconds), say)
    except KeyboardInterrupt:
        return replace(found, interrupted=True, why_no_proof="it was stopped by Ctrl-C.")
    except WorkshopError as error:
        return replace(found, why_no_proof=f"{error}.")
    except OSError as error:
        return replace(found, why_no_proof=f"the edited script cannot be put beside it: {error}.")
    found = replace(found, verdict=verdict)
    if verdict.outcome in REFUSED:
        reason = AdviceReason(REFUSED[verdict.outcome], cause=str(verdict.reasons[0]))
        return _not_taken(found, reason, SettingOutcome.OTHER_WORK)
    if verdict.outcome is Outcome.NOT_YET:
        return _not_taken(found, AdviceReason(AdviceKind.NOT_PROVEN, found.taken), SettingOutcome.NOT_PROVEN)
    return found


def _not_taken(found: Tuning, reason: AdviceReason, became: SettingOutcome) -> Tuning:
    """The result without the setting that the judge does not confirm."""
    tried = [replace(one, became=became) if one.became is SettingOutcome.TO_TAKE else one for one in found.tried]
    return replace(found, reason=reason, tried=tuple(tried), edit=None, limits=(), waits_share=0.0)


def why_not_written(found: Tuning, proof: bool) -> str:
    """Return why the edit of a setting to take is not written; empty if it may be.

    Args:
        found: the result.
        proof: whether the edit was to be proven. If so, it is written only if it is proven to do the same work.
    """
    if found.interrupted:
        return "Ctrl-C was pressed."
    if proof and not (found.verdict and found.verdict.is_same_work):
        return "it is not proven that it would do the same work. With --no-proof, it is edited all the same."
    return ""


def _why_not(edit: LoaderEdit, script: str, is_module: bool, seconds: float) -> str:
    if script == "torchrun" and not Path(script).is_file():
        return "the judge compares scripts that train in one process, and this one has several."
    if is_module:
        return "compare judges scripts, not modules."
    if edit.file.resolve() != Path(script).resolve():
        return f"compare judges an edited script, and the edit is in {edit.file.name}."
    if seconds < MIN_BUDGET_S:
        return f"{max(seconds, 0.0):.0f} s are left of the budget, and it takes {MIN_BUDGET_S:.0f} s at least."
    return ""


def _judged(edit: LoaderEdit, script: Path, arguments: Sequence[str], seconds: float, say: Say) -> Verdict:
    with _edited_copy(edit) as copy:
        contest = of_two_scripts(script, copy, arguments, MIN_GAIN, seconds)
        try:
            with Bench(replace(contest, subject=f"{script.name}, tuned"), say, say) as bench:
                verdict = replace(bench.judge(), machine=bench.load.end())
        except ScriptError as error:
            if error.script == script.name:  # the edit has no part in it
                raise WorkshopError(f"{script.name} could not be judged: {error}") from None
            return broken(script.name, error)
    speed = verdict.speed and replace(verdict.speed, candidate=f"{script.name}, tuned")
    return replace(verdict, speed=speed)


@contextmanager
def _edited_copy(edit: LoaderEdit) -> Iterator[Path]:
    """Put the edited script beside the script, so that it finds the same modules and files; remove it in the end."""
    stem, suffix = edit.file.stem, edit.file.suffix
    names = (edit.file.with_name(f".{stem}-tuned{number or ''}{suffix}") for number in range(1000))
    path = next(name for name in names if not name.exists())
    try:
        path.write_bytes(edit.content)
        yield path
    finally:
        path.unlink(missing_ok=True)
