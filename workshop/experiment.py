"""One training run: its configuration, and the folder that keeps what it wrote."""

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
"""Date and time in a file's name. Dots, not colons: Windows forbids colons there."""

DATASETS = ("auto", "oxford-pets", "stand-in")


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """What a training run depends on. A config file is Python and holds one of these.

    Raises:
        ConfigError: a value that no run could use.
    """

    batch_size: int = 32
    """Items in a batch; the last batch of an epoch may be smaller."""

    max_epochs: int = 10
    """Times the training goes through every item."""

    learning_rate: float = 1e-3
    """AdamW's."""

    update_iterations: int = 10
    """The progress bar shows the mean loss of that many batches, renewed as often."""

    image_size: int = 224
    """Height and width in pixels of what the model sees."""

    wasted_time: float = 0.1
    """Seconds that the slow data set sleeps for each item, in the place of slow storage."""

    dataset: str = "auto"
    """"oxford-pets", "stand-in", or "auto": the former where it can be had, else the latter."""

    max_items: int | None = None
    """Train on a fixed subset of at most that many items, as equal as can be over the classes; None for all."""

    cache_dir: Path = Path("cache")
    """Where a cache of items may live on disk."""

    seed: int = 0
    """Of the model's first parameters, the order of the items and the augmentation."""

    def __post_init__(self) -> None:
        for name, least in {"batch_size": 1, "max_epochs": 1, "update_iterations": 1, "seed": 0}.items():
            self._check_whole(name, least)
        # ResNet-18 divides by 32, and its last batch norm needs more than one value a channel in a batch of one.
        self._check_whole("image_size", 33, 4096)
        if self.max_items is not None:
            self._check_whole("max_items", 1)
        self._check_number("learning_rate", 1e-12, 1000)
        self._check_number("wasted_time", 0, 3600)
        if self.dataset not in DATASETS:
            raise ConfigError(f"dataset must be one of {', '.join(DATASETS)}, not {self.dataset!r}")
        if not isinstance(self.cache_dir, str | Path):
            raise ConfigError(f"cache_dir must be a path, not {self.cache_dir!r}")
        object.__setattr__(self, "cache_dir", Path(self.cache_dir))

    def to_source(self) -> str:
        """A config file that holds this."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["cache_dir"] = str(self.cache_dir)
        arguments = "".join(f"    {name}={value!r},\n" for name, value in values.items())
        return f"from workshop.experiment import ExperimentConfig\n\nconfig = ExperimentConfig(\n{arguments})\n"

    def _check_whole(self, name: str, least: int, most: int = 2**31 - 1) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ConfigError(f"{name} must be a whole number from {least} to {most}, not {value!r}")

    def _check_number(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise ConfigError(f"{name} must be a number from {least:g} to {most:g}, not {value!r}")


def load_config(path: Path) -> ExperimentConfig:
    """Run a config file and return its only ExperimentConfig, or of several the one called `config`.

    Raises:
        ConfigError: the file is missing, raises, or does not say which ExperimentConfig is meant.
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
    """Where in the config file it happened, as ", line 3"."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def _explain(error: Exception) -> str:
    if isinstance(error, ConfigError):
        return str(error)
    misspelt = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if isinstance(error, TypeError) and misspelt and "ExperimentConfig" in str(error):
        known = [field.name for field in fields(ExperimentConfig)]
        close = difflib.get_close_matches(misspelt[1], known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        return f"ExperimentConfig has no field {misspelt[1]}; {hint}"
    text = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def new_run_folder(experiments: Path, config_file: Path) -> Path:
    """Make a time-stamped folder for one run, with a copy of its config.

    Raises:
        WorkshopError: the folder cannot be written.
    """
    stamp = datetime.now().strftime(STAMP)
    try:
        experiments.mkdir(parents=True, exist_ok=True)
        folder = _first_free(experiments / stamp)
        shutil.copy(config_file, folder)
    except OSError as error:
        reason = error.strerror or error
        raise WorkshopError(
            f"cannot write to {experiments}: {reason}; name another folder with --experiments"
        ) from error
    return folder


def _first_free(folder: Path) -> Path:
    """Make that folder, or the first of folder-2, folder-3, ... that no other run has made in the same second."""
    number, free = 1, folder
    while True:
        try:
            free.mkdir()
            return free
        except FileExistsError:
            number += 1
            free = folder.with_name(f"{folder.name}-{number}")
