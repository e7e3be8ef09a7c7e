"""The commands that start any run: `workshop record lines`, `py-spy`, `torch` and `nsys`, and `workshop torchrun`."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from workshop.cli.options import COMMAND_FOLLOWS, INSTRUMENTS, CellsOption
from workshop.cli.output import commands, say, tell_of_notebook
from workshop.cli.status_row import status_row
from workshop.errors import EXIT_CRASHED, EXIT_INTERRUPTED, WorkshopError

if TYPE_CHECKING:
    from workshop.recording.line_recorder import RecordedLines
    from workshop.recording.py_spy import RecordedStacks
    from workshop.recording.run import RecordedRun
    from workshop.runs.other_load import OtherLoad

RecordedArgument = Annotated[list[str], typer.Argument(help="After --: a script, a notebook, or torchrun.")]
SecondsOption = Annotated[float | None, typer.Option(help="End the run this many seconds after its first step.", min=1)]
SlurmOption = Annotated[bool, typer.Option("--slurm", help="Run nothing; print a job script instead.")]

app = typer.Typer()
record_app = typer.Typer(no_args_is_help=True)
RECORD_HELP = "Record a run with a profiler, without an edit to it."
app.add_typer(record_app, name="record", help=RECORD_HELP, rich_help_panel=INSTRUMENTS)


@record_app.command("lines", context_settings=COMMAND_FOLLOWS)
def record_lines(
    command: RecordedArgument,
    output: Annotated[str, typer.Option("-o", "--output", help="A file, or a folder (it ends in /).")] = "",
    only: Annotated[list[str] | None, typer.Option("--only", help="This function alone; repeatable.")] = None,
    own: Annotated[
        list[Path] | None, typer.Option("--own", help="Count this installed package (its folder), too; repeatable.")
    ] = None,
    seconds: SecondsOption = None,
    cells: CellsOption = None,
) -> None:
    """Count how often and how long each line of your code runs.

    No decorator is needed, and DataLoader workers and ranks are included.

    Example: workshop record lines -- train.py configs/example_config.py

    Your own code is what is neither installed nor part of Python. The profile, train.py.lprof, contains the source as
    it ran; `python -m line_profiler` reads it, too. Ctrl-C keeps what was counted until then. Exit code: the command's;
    where nothing was recorded: 5, it crashed before; 2, otherwise.
    """
    from workshop.recording import line_recorder

    with _recording("record lines", command):
        found = line_recorder.record(command, output, only or (), own or (), seconds, say)
    functions = f"{found.functions} function{'s' * (found.functions != 1)}"
    says = f"The lines of {functions} in {_processes(found)}, {found.seconds:.0f} s, are in {found.path}"
    look = [f"workshop lines {found.path}{html}" for html in ("", " --html lines.html")]
    _finish(found, seconds, [*found.warnings, says], look)


@record_app.command("py-spy", context_settings=COMMAND_FOLLOWS)
def record_py_spy(
    command: Annotated[list[str], typer.Argument(help="After --, as you would type it.")],
    output: Annotated[
        str, typer.Option("-o", "--output", help="A file, or a folder (it ends in /).")
    ] = "py-spy-outputs/",
    rate: Annotated[int, typer.Option(help="Samples per second.", min=1, max=10_000)] = 100,
    idle: Annotated[bool, typer.Option("--idle", help="Include threads that sleep or wait.")] = False,
    native: Annotated[bool, typer.Option("--native", help="Include functions of C and C++.")] = False,
    threads: Annotated[bool, typer.Option("--threads", help="Tell threads apart.")] = False,
    seconds: SecondsOption = None,
    cells: CellsOption = None,
    slurm: SlurmOption = False,
) -> None:
    """Look at the call stacks of any program, again and again.

    Example: workshop record py-spy -- python train.py configs/example_config.py

    All processes it starts are recorded, torchrun's too. Under SLURM and torchrun the files are named by node
    and rank; no file is ever overwritten. Exit code: the command's; where nothing was
    recorded: 5, it crashed before; 2, otherwise.
    """
    from workshop.recording import py_spy

    flags = py_spy.recording_flags(rate, idle, native, threads)
    if slurm:
        print(py_spy.slurm_job(command, output, flags))
        return
    with _recording("record py-spy", command):
        found = py_spy.record(command, output, flags, seconds, say)
    says = f"{found.samples} samples of {_processes(found)} in {found.seconds:.0f} s are in {found.path}"
    waited = ""
    if not idle and found.most_of_a_process < 0.5 * found.seconds * rate:
        computed = f"{found.most_of_a_process:,} of about {found.seconds * rate:,.0f} samples"
        waited = f"The busiest process was seen computing in {computed}: mostly it waited.\n"
        waited += "To see what for, record with --idle."
    look = [f"workshop {command} --file {found.path}" for command in ("py-spy-report", "flamegraph")]
    _finish(found, seconds, [*found.warnings, says], look, note=waited)


@record_app.command("torch", context_settings=COMMAND_FOLLOWS)
def record_torch(
    context: typer.Context,
    command: RecordedArgument,
    wait: Annotated[int, typer.Option(help="Steps at the start of a cycle that are not recorded.", min=0)] = 5,
    warmup: Annotated[int, typer.Option(help="Steps that are recorded and thrown away.", min=0)] = 2,
    active: Annotated[int, typer.Option(help="Steps that are kept.", min=1)] = 2,
    repeat: Annotated[int, typer.Option(help="Cycles; 0: until the run ends.", min=0)] = 1,
    skip_first: Annotated[int, typer.Option(help="Steps before the first cycle.", min=0)] = 0,
    prof_dir: Annotated[str, typer.Option("-o", "--output", "--prof-dir", help="The folder for the traces.")] = "prof",
    activities: Annotated[str, typer.Option(help="What to record, separated by commas.")] = "cpu,cuda",
    record_shapes: Annotated[bool, typer.Option("--record-shapes", help="Shapes of operators' inputs.")] = False,
    profile_memory: Annotated[bool, typer.Option("--memory", "--profile-memory", help="Allocations.")] = False,
    with_stack: Annotated[bool, typer.Option("--with-stack", help="Lines of code. Slow.")] = False,
    with_flops: Annotated[bool, typer.Option("--with-flops", help="Estimates of FLOPs.")] = False,
    with_modules: Annotated[bool, typer.Option("--with-modules", help="Modules of operators.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Traces for TensorBoard, too.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the training once the traces are written.")] = False,
    cells: CellsOption = None,
    slurm: SlurmOption = False,
) -> None:
    """Record every operator and kernel of a few steps.

    torch.profiler records any training script as it is.

    Example: workshop record torch -- train.py configs/example_config.py

    A step is an optimizer step. Each cycle of each rank gets its own trace; profiler_list.dat sums them up by
    operator. A folder that has traces is left alone: the next gets a number. Exit code: the command's;
    where nothing was recorded: 5, it crashed before; 2, otherwise.
    """
    from workshop.probe.settings import OPERATORS, ProfilerOptions
    from workshop.recording import torch_recorder

    chosen = {name: value for name, value in context.params.items() if name not in ("command", "slurm", "cells")}
    try:
        options = ProfilerOptions(**chosen | {"activities": tuple(activities.lower().split(","))})
    except ValueError as error:
        raise WorkshopError(str(error)) from None
    if slurm:
        print(torch_recorder.slurm_job(command, options))
        return
    with _recording("record torch", command):
        found = torch_recorder.record(command, options, say)
    if found.traces:
        say(f"{len(found.traces)} trace{'s' * (len(found.traces) != 1)} in {found.folder}")
        _say_if_busy(found.machine)
        if found.is_over:
            say("All of it is recorded, and the training was ended, as --stop asks.")
        say(f"The operators are listed in {found.folder / OPERATORS}. Look at the traces:")
        views = ("", " --html trace.html", *[" --by line"] * with_stack)
        say(commands(*(f"workshop trace {found.folder}{view}" for view in views)))
    else:
        say("Nothing was recorded.")
    _end(found.stopped, found.exit_code)


@record_app.command("nsys", context_settings=COMMAND_FOLLOWS)
def record_nsys(
    command: RecordedArgument,
    output: Annotated[str, typer.Option("-o", "--output", help="The report.")] = "nsight_report",
    trace_libraries: Annotated[str, typer.Option("--trace", help="Libraries to record.")] = "cuda,nvtx,cudnn,cublas",
    gpu_metrics: Annotated[str, typer.Option(help="Devices whose counters to sample; '' for none.")] = "all",
    run_as: Annotated[str, typer.Option(help="With sudo: who runs the command; 'me' is you.")] = "",
) -> None:
    """Record the whole machine with NVIDIA's Nsight Systems.

    The phases of each step become ranges in its timeline. Beside the report come its tables, for workshop trace.

    Example: workshop record nsys -- torchrun --nproc_per_node=4 train.py

    Where there is no nsys, the command to run elsewhere is printed. Exit code: the command's; 2, there is no nsys.
    """
    from workshop.recording import nsys

    line, report = nsys.command_line(command, output, trace_libraries, gpu_metrics, run_as)
    if not shutil.which("nsys"):
        print(shlex.join(line))
        raise WorkshopError(f"there is no nsys here; get it from {nsys.WHERE} and run the line above")
    _refuse_unparsable(command)
    with status_row("record nsys"):
        found = nsys.record(line, report)
    if found.report:
        say(f"The report is {found.report}.")
        _say_if_busy(found.machine)
    if found.tables:
        say(f"What it says of the steps and the GPU:\n\n{commands(f'workshop trace {found.tables}')}")
    raise typer.Exit(found.exit_code)


def _refuse_unparsable(command: list[str]) -> None:
    """End as if the script had crashed, without a recording of a script that cannot be parsed."""
    from workshop.runs.script_error import ScriptError, require_syntax, script_in

    tell_of_notebook(script_in(command))
    try:
        require_syntax(script_in(command))
    except ScriptError as error:
        say(f"{error.output}{error.script} was not run: {error}")
        raise typer.Exit(EXIT_CRASHED) from None


@contextmanager
def _recording(name: str, command: list[str]) -> Iterator[None]:
    """Show that a recorder runs; if Ctrl-C leaves it with nothing, say so."""
    _refuse_unparsable(command)
    try:
        with status_row(name):
            yield
    except KeyboardInterrupt as stop:
        say("Nothing was recorded.")
        _end(stop, EXIT_INTERRUPTED)
    if sys.stderr.isatty():
        say("\n")  # a command that was stopped leaves the cursor behind its progress bar


def _end(stopped: BaseException | None, exit_code: int) -> NoReturn:
    """End as the recorded command did; the script has said itself that it was stopped by Ctrl-C, so this does not."""
    if isinstance(stopped, KeyboardInterrupt):
        raise SystemExit(EXIT_INTERRUPTED) from stopped
    if stopped:
        raise stopped
    raise typer.Exit(exit_code)


def _processes(found: "RecordedLines | RecordedStacks") -> str:
    return f"{found.processes} process{'es' * (found.processes != 1)}"


def _finish(
    found: "RecordedRun", seconds: float | None, says: Sequence[str], look: Sequence[str], note: str = ""
) -> NoReturn:
    """Say what was recorded, how the run ended, a note if it ended well, and what shows it; and end as it did."""
    for each in says:
        say(each)
    _say_if_busy(found.machine)
    if found.is_over:
        say(f"The run was ended on purpose: the {seconds:g} s of --seconds, which begin with its first step, are over.")
    if found.exit_code and not found.stopped:
        say(f"The command ended with exit code {found.exit_code}.")
    elif note:
        say(note)
    say(f"Look at them:\n{commands(*look)}")
    _end(found.stopped, found.exit_code)


def _say_if_busy(machine: "OtherLoad") -> None:
    if machine.busy:
        say(str(machine))


@app.command(context_settings=COMMAND_FOLLOWS | {"help_option_names": []}, rich_help_panel=INSTRUMENTS)
def torchrun(
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments passed on to torchrun.")] = None,
) -> None:
    """Run torchrun, with its errors in one line.

    If a rank fails, it says which one and how, and leaves nothing running.

    Example: workshop torchrun --nproc_per_node=2 train.py configs/example_config.py

    Exit code: that of the rank which failed first.
    """
    from workshop.runs import torchrun as ranks
    from workshop.runs.script_error import script_in

    if not arguments:
        raise WorkshopError("name a script: workshop torchrun --nproc_per_node=2 train.py configs/example_config.py")
    tell_of_notebook(script_in(["torchrun", *arguments]))
    with status_row("torchrun"):
        code, why = ranks.run(arguments)
    if why:
        say(f"\n{why}")  # below the progress bar of the stopped script
    raise typer.Exit(code)
