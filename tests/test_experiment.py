"""The configuration of a run, and the folder of its results."""

from collections.abc import Callable
from pathlib import Path

import pytest

from workshop.errors import ConfigError, WorkshopError
from workshop.experiment import ExperimentConfig, load_config, new_run_folder

IMPORT = "from workshop.experiment import ExperimentConfig\n"


@pytest.fixture
def config_file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "some_config.py"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("name", ["example_config.py", "gpu_config.py"])
def test_the_configs_that_come_with_the_workshop_load(project: Path, name: str) -> None:
    assert isinstance(load_config(project / "configs" / name), ExperimentConfig)


def test_the_config_may_have_any_name(config_file: Callable[[str], Path]) -> None:
    path = config_file(IMPORT + "mine = ExperimentConfig(batch_size=3, cache_dir='somewhere')\nalso_mine = mine")
    config = load_config(path)
    assert (config.batch_size, config.cache_dir) == (3, Path("somewhere"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "some_config.py must say config = ExperimentConfig(...); it holds none"),
        (IMPORT, "some_config.py must say config = ExperimentConfig(...); it holds none"),
        (IMPORT + "a = ExperimentConfig()\nb = ExperimentConfig(seed=1)", "config = ExperimentConfig(...); it holds 2"),
        ("\n1 / 0", "some_config.py, line 2: ZeroDivisionError: division by zero"),
        ("config = ExperimentConfig(", "some_config.py, line 1: SyntaxError: '(' was never closed"),
        (
            IMPORT + "ExperimentConfig(batchsize=16)",
            "some_config.py, line 2: ExperimentConfig has no field batchsize; did you mean batch_size?",
        ),
        (IMPORT + "ExperimentConfig(qqq=16)", "has no field qqq; there are batch_size, max_epochs"),
        (
            IMPORT + "\nExperimentConfig(batch_size=0)",
            "some_config.py, line 3: batch_size must be a whole number from 1 to 2147483647, not 0",
        ),
    ],
)
def test_a_config_that_cannot_be_used_is_named(config_file: Callable[[str], Path], text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config_file(text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_several_the_one_called_config_counts(config_file: Callable[[str], Path]) -> None:
    derive = "import dataclasses\nbase = ExperimentConfig()\nconfig = dataclasses.replace(base, seed=5)"
    assert load_config(config_file(IMPORT + derive)).seed == 5


def test_a_missing_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(path := tmp_path / "nowhere.py")
    assert str(caught.value) == f"there is no file {path}; the workshop's folder has configs/example_config.py"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", 0),
        ("batch_size", 1.5),
        ("batch_size", True),
        ("batch_size", "16"),
        ("max_epochs", 0),
        ("update_iterations", 0),
        ("seed", -1),
        ("batch_size", 10**30),
        ("seed", 2**64),
        ("image_size", 32),
        ("image_size", 10**6),
        ("wasted_time", 1e300),
        ("max_items", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("wasted_time", -0.1),
        ("wasted_time", float("inf")),
        ("dataset", "cifar"),
        ("cache_dir", None),
    ],
)
def test_a_value_that_no_run_could_use_is_refused(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{field} must be"):
        ExperimentConfig(**{field: value})


def test_two_runs_in_one_second_have_two_folders(tmp_path: Path) -> None:
    config = tmp_path / "config.py"
    config.write_text(IMPORT)
    folders = {new_run_folder(tmp_path / "experiments", config) for _ in range(5)}
    assert len(folders) == 5
    assert all((folder / "config.py").read_text() == IMPORT for folder in folders)


def test_a_file_in_the_place_of_the_experiments_folder_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config.py"
    config.write_text(IMPORT)
    with pytest.raises(WorkshopError, match=r"cannot write to .*config\.py: .*--experiments"):
        new_run_folder(config, config)
