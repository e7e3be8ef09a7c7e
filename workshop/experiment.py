"""The configuration of a training run, and the folder of its results."""

import difflib
import re
import runpy
import shutil
import traceback
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path

from workshop.errors import ConfigError, WorkshopError

STAMP = "%Y-%m-%dT%H.%M.%S"
"""The format of date and time in the name of a file; it has dots because Windows forbids colons there."""

DATASETS = ("auto", "oxford-pets", "stand-in")


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """The settings of a training run; a config file is a Python file that holds one of these.

    Raises:
        ConfigError: a value is one that no run could use.
    """

    batch_size: int = 32
    """The number of items in a batch; the last batch of an epoch may be smaller."""

    max_epochs: int = 10
    """The number of times that the training goes through every item."""

    learning_rate: float = 1e-3
    """The learning rate of AdamW."""

    update_iterations: int = 10
    """The number of batches whose mean loss the progress bar shows, and after which it is updated."""

    image_size: int = 224
    """The height and the width in pixels of the images that enter the model."""

    wasted_time: float = 0.1
    """The seconds that the slow data set sleeps for each item, to stand for slow storage."""

    dataset: str = "auto"
    """The data set: "oxford-pets", "stand-in", or "auto", which is the photos if they can be had, else the stand-in."""

    max_items: int | None = None
    """The size of the fixed subset to train on, in which classes are equally represented; None for all items."""

    cache_dir: Path = Path("cache")
    """The folder in which a cache of items may be kept."""

    seed: int = 0
    """The seed of the model's initial parameters, the order of the items and the augmentation."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_epochs", "update_iterations"):
            self._check_range(name, 1)
        self._check_range("seed", 0)
        # ResNet-18 divides by 32, and its last batch norm needs more than one value a channel in a batch of one.
        self._check_range("image_size", 33, 4096)
        if self.max_items is not None:
            self._check_range("max_items", 1)
        self._check_range("learning_rate", 1e-12, 1000, whole=False)
        self._check_range("wasted_time", 0, 3600, whole=False)
        if self.dataset not in DATASETS:
            raise ConfigError(f"dataset must be one of {', '.join(DATASETS)}, not {self.dataset!r}")
        if not isinstance(self.cache_dir, str | Path):
            raise ConfigError(f"cache_dir must be a path, not {self.cache_dir!r}")
        object.__setattr__(self, "cache_dir", Path(self.cache_dir))

    def to_source(self) -> str:
        """Return the source of a config file that holds this configuration."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["cache_dir"] = str(self.cache_dir)
        arguments = "".join(f"    {name}={value!r},\n" for name, value in values.items())
        return f"from workshop.experiment import ExperimentConfig\n\nconfig = ExperimentConfig(\n{arguments})\n"

    def _check_range(self, name: str, least: float, most: float = 2**31 - 1, whole: bool = True) -> None:
        value = getattr(self, name)
        right_type = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not right_type or not least <= value <= most:
            kind = "a whole number" if whole else "a number"
            raise ConfigError(f"{name} must be {kind} from {least} to {most}, not {value!r}")


def load_config(path: Path) -> ExperimentConfig:
    """Run a config file and return its only ExperimentConfig, or of several the one called `config`.

    Raises:
        ConfigError: the file is missing, raises an error, or does not say which ExperimentConfig is meant.
    """
    if not path.is_file():
        raise ConfigError(f"there is no file {path.absolute()}; the workshop's folder has configs/example_config.py")
    try:
        names = runpy.run_path(str(path))
    except Exception as error:
        raise ConfigError(f"{path}{_line_of(error, path)}: {_explain(error)}") from error
    configs = {id(value): value for value in names.values() if isinstance(value, ExperimentConfig)}
    chosen = next(iter(configs.values())) if len(configs) == 1 else names.get("config")
    if not isinstance(chosen, ExperimentConfig):
        raise ConfigError(f"{path} must say config = ExperimentConfig(...); it holds {len(configs) or 'none'}")
    return chosen


def _line_of(error: Exception, path: Path) -> str:
    """Return the line of the config file that an error comes from, as ", line 3"."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def _explain(error: Exception) -> str:
    if isinstance(error, ConfigError):
        return str(error)
    misspelt = re.match(r"ExperimentConfig.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error))
    if misspelt:
        known = [field.name for field in fields(ExperimentConfig)]
        close = difflib.get_close_matches(misspelt[1], known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        return f"ExperimentConfig has no field {misspelt[1]}; {hint}"
    text = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def new_run_folder(experiments: Path, config_file: Path) -> Path:
    """Make a folder for a run, with date and time in its name and a copy of its config in it.

    Raises:
        WorkshopError: the folder cannot be written.
    """
    stamp = datetime.now().strftime(STAMP)
    try:
        experiments.mkdir(parents=True, exist_ok=True)
        folder = _first_free(experiments / stamp)
        shutil.copy(config_file, folder)
    except OSError as error:
        problem = f"cannot write to {experiments}: {error.strerror or error}"
        raise WorkshopError(f"{problem}; name another folder with --experiments") from error
    return folder


def _first_free(folder: Path) -> Path:
    """Make a folder, or the first of folder-2, folder-3, ... that no other run has made in the same second."""
    number, free = 1, folder
    while True:
        try:
            free.mkdir()
            return free
        except FileExistsError:
            number += 1
            free = folder.with_name(f"{folder.name}-{number}")
