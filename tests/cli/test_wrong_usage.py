"""What is said of a command that cannot be carried out: one line, exit code 2, and no traceback."""

import shutil
from pathlib import Path

import pytest
from conftest import Run


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("dance", "No such command 'dance'"),
        ("show part99", "there is no part 'part99'; there are part1 to part12"),
        ("diff part3", "or see the solution with --yes"),
        ("solution part3", "or see the solution with --yes"),
        ("check part3 --all", "goes with no part, answer or recording"),
        ("check part99", "there is no part 'part99'; there are part1 to part12"),
        ("check part3 --script absent.py", "absent.py; name your script with --script"),
        ("check part3 --script trace.json", "trace.json is not a Python script: it is a trace"),
        ("check part3 --config absent.py", "there is no file"),
        ("check part2", "part2 asks: In which line"),
        ("check part2 --json", "part2 asks: In which line"),
        ("check --all", "part1 asks: While the script trains"),
        ("check --all --answer 1", "goes with no part, answer or recording"),
        ("check part1 --answer perhaps", "'perhaps' is no answer to this; choose one of cpu, gpu, none"),
        ("check part3 --answer 1", "part3 asks no question"),
        ("data download", "WORKSHOP_OFFLINE"),
        ("measure absent.py", "absent.py is not a file; name a Python script"),
        ("measure trace.json", "trace.json is not a Python script: it is a trace; workshop trace trace.json reads it"),
        ("memory trace.json", "trace.json is not a Python script: it is a trace"),
        ("tune trace.json", "trace.json is not a Python script: it is a trace"),
        ("compare train.py trace.json", "trace.json is not a Python script: it is a trace"),
        ("compare --base HEAD trace.json", "trace.json is not a Python script: it is a trace"),
        ("record lines -- trace.json", "trace.json is not a command: it is a trace"),
        ("record torch -- trace.json", "trace.json is not a command: it is a trace"),
        ("record py-spy -- trace.json", "trace.json is not a command: it is a trace"),
        ("lines trace.json", "trace.json is not a line profile: it is a trace"),
        ("py-spy-report --file trace.json", "trace.json is not a py-spy recording: it is a trace"),
        ("memory --diff trace.json train.py", "workshop memory --save has written: it is a trace"),
        ("measure --diff trace.json train.py", "workshop measure --save has written: it is a trace"),
        ("trace trace.json", "trace.json is no trace of torch.profiler: no operator, kernel, copy or step is in it"),
        ("trace trace.json --json", "trace.json is no trace of torch.profiler"),
        ("trace trace.json --html page.html", "trace.json is no trace of torch.profiler"),
        ("trace --diff trace.json trace.json", "trace.json is no trace of torch.profiler"),
        ("measure train.py --save before.json", "--save stands behind train.py, which would get it"),
        ("tune absent.py", "absent.py is not a file; name a Python script"),
        ("tune --memory much train.py", "much is no size; write 16G or 800M"),
        ("tune --memory 0 train.py", "0 is no size; write 16G or 800M"),
        ("tune train.py --no-proof", "--no-proof stands behind train.py, which would get it"),
        ("compare absent.py train.py", "absent.py is not a file; name two training scripts"),
        ("compare train.py", "name two scripts, OLD and NEW; or --base REVISION and one script"),
        ("compare --allow 5% train.py train.py", "goes with --base"),
        ("compare --base HEAD --target 2 train.py", "goes with two scripts"),
        ("compare --base HEAD --allow all train.py", "all is no share below 100 %; write 5%"),
        ("compare --base HEAD --budget soon train.py", "soon is no time; write 90, 90s, 10m or 1h"),
        ("compare --base HEAD --budget 9s train.py", "is 10 seconds at least"),
        ("compare --base HEAD absent.py", "absent.py is not a file; name a training script"),
        ("compare --base HEAD train.py --allow 5%", "--allow stands behind train.py, which would get it"),
        ("compare --base HEAD train.py", "train.py is in no git repository, so there is no base"),
        ("compare --base HEAD --format xml train.py", "xml is none of github, markdown, sarif, or NAME=FILE"),
        ("compare --base HEAD --format github --json train.py", "only one goes to stdout"),
        ("measure --format sarif=absent/a.sarif train.py", "there is no folder absent for a.sarif"),
        ("lines --format github a.lprof", "goes with --diff"),
        ("torchrun", "name a script: workshop torchrun"),
        ("py-spy-report", "there is no recording here: record one with"),
        ("py-spy-report absent.raw", "there is no file absent.raw"),
        ("py-spy-report notes.txt --num-rows 0", "is a number from 1, or all"),
        ("py-spy-report notes.txt --by colour", "is process, thread or rank"),
        ("py-spy-report notes.txt --json --csv", "--json and --csv exclude each other"),
        ("py-spy-report notes.txt --total --user-code", "--total and --user-code exclude each other"),
        ("lines --diff a.lprof", "takes two, BEFORE AFTER"),
        ("lines --diff a.lprof b.lprof --html page.html", "--diff and --html exclude each other"),
        ("flamegraph --diff a.raw", "takes two, BEFORE AFTER"),
        ("py-spy-report --diff a.txt b.txt --by rank", "--diff and --by exclude each other"),
        ("py-spy-report --file notes.txt", "notes.txt is not a py-spy recording"),
        ("flamegraph --file notes.txt", "notes.txt is not a py-spy recording"),
        ("trace absent.json", "there is no file absent.json"),
        ("trace empty.json", "empty.json is empty"),
        ("trace folder", "there is no trace in folder"),
        ("trace folder --tables nothing", "is one or more of temporal, idle"),
        ("trace folder --csv", "name it with --tables"),
        ("trace folder --hta-compat", "goes with --json"),
        ("trace folder --html page.html --json", "goes with no other choice"),
    ],
)
def test_wrong_usage(command: str, says: str, workshop: Run, project: Path, tmp_path: Path) -> None:
    shutil.copy(project / "train.py", tmp_path)
    (tmp_path / "notes.txt").write_text("Dear diary,\nnothing today.\n")
    (tmp_path / "empty.json").touch()
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    (tmp_path / "folder").mkdir()
    done = workshop(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr.splitlines()[-1]
    before = [line for line in done.stderr.splitlines()[:-1] if not line.startswith("part")]  # that is progress
    assert not before or before[0].startswith("Usage: workshop")
