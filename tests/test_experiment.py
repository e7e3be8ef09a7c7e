"""The configuration of a run, and the folder of its results."""

import math
from pathlib import Path

import pytest

from workshop.errors import ConfigError, WorkshopError
from workshop.experiment import ExperimentConfig, load_config, new_run_folder


def config_file(folder: Path, text: str) -> Path:
    path = folder / "some_config.py"
    path.write_text(f"from workshop.experiment import ExperimentConfig\n{text}")
    return path


def test_the_configs_that_come_with_the_workshop_load(project: Path) -> None:
    assert {type(load_config(path)) for path in project.glob("configs/*.py")} == {ExperimentConfig}


def test_the_only_config_may_have_any_name_and_of_several_the_one_called_config_counts(tmp_path: Path) -> None:
    only = "mine = ExperimentConfig(batch_size=3, cache_dir='somewhere')\nalso_mine = mine"
    expected = ExperimentConfig(batch_size=3, cache_dir=Path("somewhere"))
    assert load_config(config_file(tmp_path, only)) == expected
    several = "import dataclasses\nbase = ExperimentConfig()\nconfig = dataclasses.replace(base, seed=5)"
    assert load_config(config_file(tmp_path, several)).seed == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "some_config.py must say config = ExperimentConfig(...); it holds none"),
        ("a = ExperimentConfig()\nb = ExperimentConfig(seed=1)", "config = ExperimentConfig(...); it holds 2"),
        ("1 / 0", "some_config.py, line 2: ZeroDivisionError: division by zero"),
        ("config = ExperimentConfig(", "some_config.py, line 2: SyntaxError: '(' was never closed"),
        ("ExperimentConfig(batchsize=16)", "ExperimentConfig has no field batchsize; did you mean batch_size?"),
        ("ExperimentConfig(qqq=16)", "has no field qqq; there are batch_size, max_epochs"),
        ("\nExperimentConfig(seed=-1)", "line 3: seed must be a whole number from 0 to 2147483647, not -1"),
    ],
)
def test_a_config_that_cannot_be_used_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config_file(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(path := tmp_path / "nowhere.py")
    assert str(caught.value) == f"there is no file {path}; the workshop's folder has configs/example_config.py"


UNUSABLE = {
    "batch_size": (0, 1.5, True, "16", 10**30),
    "max_epochs": (0,),
    "update_iterations": (0,),
    "seed": (-1, 2**64),
    "image_size": (32, 10**6),
    "max_items": (0,),
    "learning_rate": (0.0, math.nan),
    "wasted_time": (-0.1, 1e300, math.inf),
    "dataset": ("cifar",),
    "cache_dir": (None,),
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in UNUSABLE for value in UNUSABLE[field]])
def test_a_value_that_no_run_could_use_is_refused(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{field} must be"):
        ExperimentConfig(**{field: value})


def test_two_runs_in_one_second_have_two_folders(tmp_path: Path) -> None:
    config = config_file(tmp_path, "")
    folders = {new_run_folder(tmp_path / "experiments", config) for _ in range(5)}
    assert len(folders) == 5
    assert all((folder / config.name).read_text() == config.read_text() for folder in folders)


def test_a_file_in_the_place_of_the_experiments_folder_is_named(tmp_path: Path) -> None:
    config = config_file(tmp_path, "")
    with pytest.raises(WorkshopError, match=r"cannot write to .*some_config\.py: .*--experiments"):
        new_run_folder(config, config)
