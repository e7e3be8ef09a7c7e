"""The base of a comparison: the files of a script's repository as they are at an earlier revision."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.judge.reasons import Reason, ReasonKind
from workshop.runs.script import Say

SUBMODULE = "160000"
"""The mode of an entry that is another repository."""


_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Variables that git sets for a hook, and that would name another repository or index."""


class GitError(WorkshopError):
    """Git refused; the text is the first line of what it said."""


class BaseReason(ReasonKind):
    """What is said of what is compared with what."""

    COMMIT = "{revision} is commit {commit}"
    NOT_COMMITTED = "the working tree is judged as it is, with changes in {files} that are not committed"
    COMMITS_MISSING = (
        "{revision} has {commits} that the working tree does not have: the difference is theirs, too (the revision "
        "where they parted: git merge-base HEAD {revision})"
    )


@dataclass(frozen=True)
class Base:
    """A revision, and its files in a folder of their own."""

    revision: str
    """What the user has named, such as "origin/main"."""
    commit: str
    """The full name of its commit."""
    tree: Path
    """The top folder of the working tree."""
    folder: Path
    """The folder with the files of the base."""
    script: Path
    """The path of the script, relative to both folders."""
    changed: int
    """The number of files in the working tree with changes that are not committed, and of new modules."""
    missing: int
    """The number of commits of the base that the working tree does not build on."""

    @property
    def name(self) -> str:
        """How the base is called in a sentence: as the user called it, but for a long number of a commit."""
        return self.commit[:8] if self.commit.startswith(self.revision) else self.revision

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What is compared with what."""
        found = [BaseReason.COMMIT(revision=self.revision, commit=self.commit[:8])] * (self.name == self.revision)
        if self.changed:
            found.append(BaseReason.NOT_COMMITTED(files=f"{self.changed} file{'s' * (self.changed > 1)}"))
        if self.missing:
            commits = f"{self.missing} commit{'s' * (self.missing > 1)}"
            found.append(BaseReason.COMMITS_MISSING(revision=self.revision, commits=commits))
        return tuple(found)

    def argument(self, word: str) -> str:
        """Return an argument of the script as the base gets it: a file in git is named as it is in the base.

        So each version reads its own config. The file may also stand behind an equals sign.
        """
        before, equals, path = word.rpartition("=")
        if not path or path.startswith("-"):
            return word
        real = Path(os.path.realpath(path))
        if not (real.is_file() and real.is_relative_to(self.tree)):
            return word
        place = self.folder / real.relative_to(self.tree)
        return f"{before}{equals}{place}" if place.is_file() and not place.is_symlink() else word


@contextmanager
def checked_out(revision: str, script: Path, say: Say = lambda _: None) -> Iterator[Base]:
    """Write the files of a revision to a temporary folder, which is removed in the end; the repository stays as it is.

    What is in the working tree but not in git, such as data, is linked to from the same place.

    Args:
        revision: a branch, tag or commit.
        script: a script in the working tree.
        say: told of the progress.

    Raises:
        WorkshopError: there is no git, no repository or no such revision, the script is not in it, or a submodule of it
            is not here.
    """
    tree, place = _place(script)
    commit = _commit(tree, revision)
    _require(tree, revision, commit, place)
    changes = names(git(tree, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"))
    changed = sum(not each.startswith("??") or each.endswith(".py") for each in changes)
    missing = int(git(tree, "rev-list", "--count", f"HEAD..{commit}")) if _has_head(tree) else 0
    say(f"checking out {revision}")
    with tempfile.TemporaryDirectory(prefix="workshop-base-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary).resolve() / tree.name  # of the same name: so functions are found again by their file
        _check_out(tree, revision, commit, folder)
        for each in names(git(tree, "ls-files", "--others", "--directory", "--no-empty-directory", "-z")):
            _link(tree / each, folder / each)
        yield Base(revision, commit, tree, folder, place, changed, missing)


def _place(script: Path) -> tuple[Path, Path]:
    """Return the top folder of the working tree that a script is in, and the script's path in it."""
    try:
        top = git(script.parent, "rev-parse", "--show-toplevel").rstrip("\n")
        prefix = git(script.parent, "rev-parse", "--show-prefix").rstrip("\n")
    except GitError as error:
        if "not a git repository" in str(error):
            raise WorkshopError(
                f"{script} is in no git repository, so there is no base; name two scripts: compare OLD NEW"
            ) from None
        raise WorkshopError(f"git cannot be asked for the base of {script}: {error}") from None
    return Path(os.path.realpath(top)), Path(prefix) / script.name


def _commit(tree: Path, revision: str) -> str:
    try:
        found = git(tree, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except GitError:
        raise WorkshopError(
            f"there is no revision {revision} in {tree}; name one that git log knows, or fetch it first "
            "(git fetch origin; in a workflow: fetch-depth: 0)"
        ) from None
    return found.strip()


def _has_head(tree: Path) -> bool:
    try:
        git(tree, "rev-parse", "--verify", "--quiet", "HEAD")
    except GitError:
        return False
    return True


def _require(tree: Path, revision: str, commit: str, place: Path) -> None:
    if git(tree, "ls-tree", "-z", commit, "--", str(place)):
        return
    if old := _moved_from(tree, commit, str(place)):
        raise WorkshopError(
            f"{place} is {old} in {revision}: a script that was moved has no base; commit the move by itself, and "
            "take that commit as the base"
        )
    raise WorkshopError(f"{place} is new: {revision} does not have it, so there is nothing to compare with")


def _moved_from(tree: Path, commit: str, place: str) -> str:
    """Return where a script was in a commit; empty if it is new. Git does not know of a move before it is told."""
    moved = names(git(tree, "diff", "--name-status", "-z", "--find-renames", "--diff-filter=R", commit))
    for old, new in zip(moved[1::3], moved[2::3], strict=True):
        if new == place:
            return old
    content = git(tree, "hash-object", "--", place).strip()
    files = (each.partition("\t") for each in names(git(tree, "ls-tree", "-r", "-z", commit)))
    return next((old for about, _, old in files if content in about and not (tree / old).exists()), "")


def _check_out(repository: Path, revision: str, commit: str, folder: Path) -> None:
    """Write the files of a commit to a folder, with those of its submodules, by an index of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    index = {"GIT_INDEX_FILE": str(folder.parent / f".{folder.name}.index")}
    git(repository, "read-tree", commit, environment=index)
    git(repository, "checkout-index", "--all", "--quiet", f"--prefix={folder}{os.sep}", environment=index)
    for entry in names(git(repository, "ls-files", "--stage", "-z", environment=index)):
        about, _, path = entry.partition("\t")
        mode, of_submodule, _ = about.split()
        if mode == SUBMODULE:
            _check_out_submodule(repository / path, revision, of_submodule, folder / path)
    Path(index["GIT_INDEX_FILE"]).unlink()


def _check_out_submodule(repository: Path, revision: str, commit: str, folder: Path) -> None:
    """Write the files of a submodule, from its repository in the working tree."""
    try:
        if not (repository / ".git").exists():
            raise GitError("it is empty here")
        git(repository, "cat-file", "-e", f"{commit}^{{commit}}")
    except GitError:
        raise WorkshopError(
            f"the submodule {repository.name} is not here as {revision} has it ({commit[:8]}); fetch it: "
            f"git submodule update --init {repository.name}, and git fetch in it"
        ) from None
    _check_out(repository, revision, commit, folder)


def _link(here: Path, there: Path) -> None:
    if here.name != "__pycache__" and not os.path.lexists(there):
        there.parent.mkdir(parents=True, exist_ok=True)
        there.symlink_to(here)


def git(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run git in a folder and return what it prints.

    Raises:
        GitError: git ended with an error.
        WorkshopError: there is no git.
    """
    if not shutil.which("git"):
        raise WorkshopError("there is no git on this machine; install it, or name two scripts: compare OLD NEW")
    variables = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "core.quotePath=false", *arguments],
        env={**variables, **(environment or {}), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if done.returncode:
        raise GitError((os.fsdecode(done.stderr).strip() or f"git ended with code {done.returncode}").splitlines()[0])
    return os.fsdecode(done.stdout)


def names(text: str) -> Sequence[str]:
    """Return the names that git printed with -z."""
    return [name for name in text.split("\0") if name]
