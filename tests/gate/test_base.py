"""The base of a gate: what is checked out, from real repositories, and what is said of one that cannot be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repositories import commit, git, repository

from workshop.errors import WorkshopError
from workshop.gate.base import BaseReason, checked_out
from workshop.probe import wire
from workshop.probe.settings import REDIRECT_VARIABLE, RedirectedImports
from workshop.runs.script import probe_environment


def refused(revision: str, script: Path) -> str:
    with pytest.raises(WorkshopError) as error, checked_out(revision, script):
        pass
    text = str(error.value)
    assert "\n" not in text
    return text


def test_the_files_of_a_revision_are_there_and_the_repository_is_as_it_was(tmp_path: Path) -> None:
    tree = repository(tmp_path / "tree", train="old", **{"sub/model": "old"})
    commit(tree, train="new", **{"sub/model": "new"}, later="new")
    (tree / "train.py").write_text("not committed")
    (tree / "notes.txt").write_text("no module")

    def state() -> list[str]:
        return [git(tree, *each.split()) for each in ("status --porcelain", "worktree list", "count-objects -v")]

    before = state()
    with checked_out("HEAD~1", tree / "train.py") as base:
        assert (base.folder / base.script).read_text() == "old"
        assert (base.folder / "sub/model.py").read_text() == "old"
        assert not (base.folder / "later.py").exists()
        assert base.folder.name == "tree"
        assert base.notes[1:] == (BaseReason.NOT_COMMITTED(files="1 file"),)
        folder = base.folder
    assert not folder.exists()
    assert state() == before
    (tree / "fresh.py").write_text("a module that git does not know yet")
    with checked_out("HEAD~1", tree / "train.py") as base:
        assert "with changes in 2 files that are not committed" in str(base.notes[1])


def test_the_script_may_lie_in_a_folder_and_git_may_run_in_a_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git sets variables for a hook that name its own repository and index."""
    tree = repository(tmp_path / "tree", **{"jobs/train": "old"})
    (tmp_path / "link").symlink_to(tree)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.chdir(tree / "jobs")
    for script in (Path("train.py"), tmp_path / "link/jobs/train.py"):
        with checked_out("main", script) as base:
            assert (base.script, base.tree) == (Path("jobs/train.py"), Path(os.path.realpath(tree)))


def test_what_is_not_in_git_is_linked_to(tmp_path: Path) -> None:
    tree = repository(tmp_path / "tree", train="old")
    (tree / ".gitignore").write_text("datasets/\n*.bin\n")
    (tree / "datasets").mkdir()
    (tree / "datasets/photos.txt").write_text("a photo")
    (tree / "weights.bin").write_text("weights")
    with checked_out("HEAD", tree / "train.py") as base:
        assert (base.folder / "datasets/photos.txt").read_text() == "a photo"
        assert (base.folder / "weights.bin").read_text() == "weights"
    assert (tree / "datasets/photos.txt").read_text() == "a photo", "a link is removed, and not what it leads to"


def test_commits_that_the_working_tree_lacks_are_told(tmp_path: Path) -> None:
    tree = repository(tmp_path / "tree", train="old")
    git(tree, "branch", "mine")
    commit(tree, train="newer")
    git(tree, "checkout", "--quiet", "mine")
    with checked_out("main", tree / "train.py") as base:
        assert "main has 1 commit that the working tree does not have" in str(base.notes[1])


def test_each_version_reads_its_own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = repository(tmp_path / "tree", train="", **{"configs/small": "workers = 4"})
    commit(tree, **{"configs/small": "workers = 0"}, **{"configs/late": ""})
    (tree / "notes.txt").write_text("not in git")
    monkeypatch.chdir(tree)
    with checked_out("HEAD~1", tree / "train.py") as base:
        small = str(base.folder / "configs/small.py")
        assert Path(small).read_text() == "workers = 4"
        words = ["configs/small.py", "--config=configs/small.py", "configs/late.py", "notes.txt", "--lr", "1e-3", "a=b"]
        expected = [small, f"--config={small}", *words[2:]]
        assert [base.argument(word) for word in words] == expected


def test_a_base_that_cannot_be_had_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = repository(tmp_path / "tree", train="one\ntwo\nthree\n")
    (tree / "fresh.py").write_text("")
    assert "there is no revision origin/main in" in refused("origin/main", tree / "train.py")
    assert "there is no revision --help in" in refused("--help", tree / "train.py")
    assert "fresh.py is new: HEAD does not have it" in refused("HEAD", tree / "fresh.py")
    git(tree, "mv", "train.py", "main.py")
    assert "main.py is train.py in HEAD: a script that was moved has no base" in refused("HEAD", tree / "main.py")
    git(tree, "reset", "--quiet", "--hard")
    (tree / "train.py").rename(tree / "moved.py")  # git has not been told
    assert "moved.py is train.py in HEAD: a script that was moved" in refused("HEAD", tree / "moved.py")
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/train.py").write_text("")
    assert "is in no git repository, so there is no base" in refused("HEAD", tmp_path / "alone/train.py")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no git on this machine" in refused("HEAD", tree / "moved.py")


def test_a_repository_without_a_commit_has_no_base(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "train.py").write_text("")
    assert "there is no revision HEAD" in refused("HEAD", tmp_path / "train.py")


def test_submodules_are_as_the_base_has_them(tmp_path: Path) -> None:
    library = repository(tmp_path / "library", fast="old")
    tree = repository(tmp_path / "tree", train="import library.fast")
    git(tree, "submodule", "--quiet", "add", str(library), "library")
    commit(tree)
    git(tree, "branch", "with-old")
    commit(library, fast="new")
    git(tree / "library", "pull", "--quiet")
    commit(tree)
    with checked_out("with-old", tree / "train.py") as base:
        assert (base.folder / "library/fast.py").read_text() == "old"
    git(tree, "submodule", "--quiet", "deinit", "--force", "library")
    assert "the submodule library is not here as with-old has it" in refused("with-old", tree / "train.py")


SCRIPT = """
import os, sys
sys.path.append(os.getcwd())
sys.path.insert(0, os.environ["TREE"])
from package import inside
import sibling, lonely, space.part, multiprocessing
if __name__ == "__main__":
    print(sibling.VERSION, inside.VERSION, space.part.VERSION, lonely.VERSION)
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        print(pool.apply(sibling.version))
"""
MODULE = "VERSION = 'old'\ndef version(): return VERSION\n"

EDITABLE = """
import sys
from importlib.util import spec_from_file_location
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "package":
            folder = "TREE/package"
            return spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
sys.meta_path.insert(0, Finder)
"""
"""The finder of an editable install, at the place where it is hardest to get past."""


def test_the_base_imports_its_own_modules_wherever_the_working_tree_is_on_the_path(tmp_path: Path) -> None:
    """As the current folder, by PYTHONPATH, by a line of the script, as an editable install, in spawned processes."""
    tree = repository(
        tmp_path / "tree",
        train=SCRIPT,
        sibling=MODULE,
        **{"package/__init__": "", "package/inside": MODULE, "space/part": MODULE},
    )
    tree = Path(os.path.realpath(tree))
    commit(tree, **{name: MODULE.replace("old", "new") for name in ("sibling", "package/inside", "space/part")})
    (tree / ".gitignore").write_text("lonely.py\n")
    (tree / "lonely.py").write_text("VERSION = 'built'")  # as a build would leave it
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(EDITABLE.replace("TREE", str(tree)))
    environment = {**os.environ, **probe_environment(), "TREE": str(tree)}
    environment["PYTHONPATH"] += os.pathsep + os.pathsep.join([str(hook), str(tree)])

    def printed(script: Path, **more: str) -> list[str]:
        command = [sys.executable, str(script)]
        done = subprocess.run(command, cwd=tree, env={**environment, **more}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert printed(tree / "train.py") == ["new", "new", "new", "built", "new"]
    with checked_out("HEAD~1", tree / "train.py") as base:
        redirected = {REDIRECT_VARIABLE: wire.encode(RedirectedImports(str(base.tree), str(base.folder)))}
        versions = printed(base.folder / base.script, **redirected)
        assert versions[:3] == ["old", "old", "old"]
        assert versions[-1] == "old", "in a process that is spawned"
        assert "new" in printed(base.folder / base.script), "without the redirection, the two would be mixed"
