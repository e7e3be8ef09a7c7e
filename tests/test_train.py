"""The slow script does the right work: tested as a participant runs it, and from inside."""

import csv
import os
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from script_runs import run_script
from torch.utils.data import DataLoader
from torchvision import tv_tensors
from torchvision.models import resnet18
from torchvision.transforms import v2

from solutions import part1 as train  # the same file, under a name that can be imported
from workshop.errors import plain_errors
from workshop.experiment import ExperimentConfig
from workshop.pets.dataset import OxfordPets
from workshop.pets.layout import PetFolder, stand_in_folder

WriteConfig = Callable[..., Path]
CPU = torch.device("cpu")


def read_metrics(experiments: Path) -> list[dict[str, str]]:
    [path] = experiments.glob("*/metrics.csv")
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_writes_its_config_and_a_line_for_every_step(
    project: Path, data: Path, write_config: WriteConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, experiments = write_config(max_items=8, batch_size=4, max_epochs=2), tmp_path / "experiments"
    places = ("--data", data, "--experiments", experiments)
    assert run_script(project / "train.py", config, *places, "--device", "cpu") == 0
    bars = capsys.readouterr().err
    assert "Epoch: 100%" in bars
    assert "Batch (loss " in bars
    [folder] = experiments.iterdir()
    assert (folder / "config.py").read_text() == config.read_text()
    rows = read_metrics(experiments)
    assert list(rows[0]) == ["epoch", "step", "loss", "samples_per_second"]
    assert [row["epoch"] + row["step"] for row in rows] == ["00", "01", "12", "13"]
    assert all(float(row["loss"]) > 0 and float(row["samples_per_second"]) > 0 for row in rows)


def links_to(data: Path, to: Path) -> PetFolder:
    """A stand-in in another folder: its pictures are links to those of the whole one, its lists may be changed."""
    folder = stand_in_folder(to)
    shutil.copytree(stand_in_folder(data).annotations, folder.annotations)
    shutil.copytree(stand_in_folder(data).images, folder.images, copy_function=os.symlink)
    return folder


SMALL = ExperimentConfig(batch_size=4, max_epochs=2, image_size=48, wasted_time=0, max_items=6, seed=3)


def losses(config: ExperimentConfig, root: Path, folder: Path) -> list[str]:
    (folder / "run").mkdir(parents=True)
    train.main(config, root, CPU, folder / "run")
    return [row["loss"] for row in read_metrics(folder)]


def test_it_trains_as_the_textbook_says(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its losses are those of the shortest loop that says the same, from the same seed; from another, they are not.

    Every item comes once an epoch, each time in another order.
    """
    root = data / "stand-in"
    torch.manual_seed(SMALL.seed)
    transform = v2.Compose([train.decode(48), train.augment(48)])
    loader = DataLoader(OxfordPets(root, transform=transform, max_items=6), batch_size=4, shuffle=True)
    model = resnet18(num_classes=37)
    optimizer = torch.optim.AdamW(model.parameters(), lr=SMALL.learning_rate)
    expected = []
    for _ in range(2):
        for images, targets in loader:
            loss = torch.nn.functional.cross_entropy(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            expected.append(loss.item())
    asked: list[int] = []

    class Recorded(OxfordPets):
        def __getitem__(self, index: int) -> tuple[object, object]:
            asked.append(index)
            return super().__getitem__(index)

    monkeypatch.setattr(train, "OxfordPets", Recorded)
    assert [float(loss) for loss in losses(SMALL, root, tmp_path)] == pytest.approx(expected, rel=1e-4)
    first, second = asked[:6], asked[6:]
    assert sorted(first) == sorted(second) == list(range(6))
    assert len({tuple(first), tuple(second), tuple(range(6))}) == 3
    [other, *_] = losses(replace(SMALL, max_epochs=1, max_items=4, seed=4), root, tmp_path / "other")
    assert float(other) != pytest.approx(expected[0], rel=1e-3)


def test_the_transforms_are_those_of_the_workshop_in_its_wasteful_order() -> None:
    assert [type(each) for each in train.decode(64).transforms] == [v2.ToImage, v2.Resize, v2.ToDtype]
    random = [v2.AutoAugment, v2.ToDtype, v2.Normalize, v2.RandomResizedCrop]
    assert [type(each) for each in train.augment(64).transforms] == random


def test_it_sleeps_for_every_item(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(train.time, "sleep", slept.append)
    dataset = train.CustomSlowDataset(data / "stand-in", train.decode(48), wasted_time=0.1, max_items=3)
    assert len([dataset[index] for index in range(len(dataset))]) == 3
    assert slept == [0.1, 0.1, 0.1]


def test_decode_is_deterministic_and_augment_is_not(data: Path) -> None:
    with Image.open(stand_in_folder(data).images / "pug_1.jpg") as image:
        decoded, again = train.decode(64)(image), train.decode(64)(image)
    assert isinstance(decoded, tv_tensors.Image)
    assert (decoded.shape, decoded.dtype) == ((3, 73, 73), torch.uint8)
    assert torch.equal(decoded, again)

    augmented = [train.augment(64)(decoded) for _ in range(5)]
    assert {(each.shape, each.dtype) for each in augmented} == {((3, 64, 64), torch.float32)}
    assert not any(torch.equal(augmented[0], other) for other in augmented[1:])


def test_the_dataset_pickles_with_its_transforms(data: Path) -> None:
    transform = torch.nn.Sequential(train.decode(48), train.augment(48))
    dataset = train.CustomSlowDataset(data / "stand-in", transform, wasted_time=0, max_items=2)
    again = pickle.loads(pickle.dumps(dataset))
    torch.manual_seed(0)
    item = dataset[1]
    torch.manual_seed(0)
    torch.testing.assert_close(again[1], item, rtol=0, atol=0)


def test_real_photos_with_few_classes_need_no_change(data: Path, tmp_path: Path) -> None:
    """A set that holds only some of the breeds, under their own class numbers, has fewer classes than labels."""
    folder = links_to(data, tmp_path)
    lines = folder.list_file("trainval").read_text().splitlines()
    folder.list_file("trainval").write_text("\n".join(lines[-10:]))
    config = replace(SMALL, max_epochs=1, max_items=None)
    assert len(losses(config, folder.root, tmp_path / "experiments")) == 3


@pytest.fixture
def mistake(
    project: Path,
    write_config: WriteConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    """Run the script, which must fail with exit code 2, and return the only line that it writes to stderr."""
    monkeypatch.chdir(tmp_path)

    def run_wrongly(*options: str | Path, script: Path = project / "train.py", **fields: Any) -> str:
        assert run_script(script, write_config(**fields), *options) == 2
        printed = capfd.readouterr()
        assert printed.out == ""
        lines = re.split(r"[\r\n]|\x1b\[A", printed.err)
        [message] = [line for line in lines if line.strip() and "%|" not in line]  # the others are progress bars
        return message

    return run_wrongly


@pytest.mark.parametrize(
    ("fields", "options", "says"),
    [
        ({"batch_size": 0}, [], r".*config\.py, line 2: batch_size must be a whole number from 1 to .*, not 0"),
        ({}, ["--device", "cuda:99"], "there is no device 'cuda:99' here; this machine has .*cpu"),
        # A file in place of a folder is refused to everybody; missing permissions do not stop root.
        ({}, ["--experiments", "taken/x"], "cannot write to taken/x: Not a directory; name another folder with .*"),
        ({}, ["--data", "taken/x"], "cannot use taken/x: Not a directory; name a folder of your own"),
    ],
)
def test_what_cannot_be_used(
    fields: dict[str, Any], options: list[str], says: str, mistake: Callable[..., str], data: Path
) -> None:
    Path("taken").write_text("")
    assert re.fullmatch(says, mistake("--data", data, *options, **fields))


def test_data_with_missing_images(mistake: Callable[..., str], data: Path) -> None:
    (links_to(data, Path("datasets")).images / "pug_20.jpg").unlink()
    assert re.search(r"1 missing \(images/pug_20\.jpg\).* and run `workshop data make`$", mistake())


def test_a_corrupt_jpeg_is_named_also_by_a_worker(mistake: Callable[..., str], project: Path, data: Path) -> None:
    path = links_to(data, Path("datasets")).images / "Abyssinian_1.jpg"
    path.unlink()
    path.write_bytes(b"\xff\xd8\xff")
    text = (project / "train.py").read_text()
    Path("mine.py").write_text(text.replace("shuffle=True)", "shuffle=True, num_workers=2)"))
    line = mistake("--device", "cpu", script=Path("mine.py"), max_items=1)
    assert re.fullmatch(rf"{path} cannot be read as a picture \(.*\); put a good copy there", line)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full, of Linux")
def test_no_space_for_the_metrics(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics.csv").symlink_to("/dev/full")
    with pytest.raises(SystemExit) as exit_, plain_errors():
        train.main(SMALL, data / "stand-in", CPU, tmp_path)
    assert exit_.value.code == 2
    last_line = capsys.readouterr().err.replace("\r", "\n").splitlines()[-1]
    assert last_line.startswith("no room for what was being written: No space left on device; free some space")
