"""The line that decides how often something is done, found in the source, or among what a trainer was told."""

import json
from pathlib import Path

import pytest
from conftest import Run

from workshop.diagnosis.causes.other_work import decided_by
from workshop.diagnosis.samples import Observations
from workshop.probe.observations import SettingMade
from workshop.profiles.stacks import Frame

OWN_LOOP = """\
def evaluate(model, step):
    if step % 50:
        return
    for batch in valid:
        model(batch)

def train():
    for step, batch in enumerate(loader):
        model(batch)
        if step % 10 == 0:
            save(model)
        if step > 3:
            draw(model)
        evaluate(model, step)
        if step % 7 == 0 and step: log(step)
        else: note(step)
"""


@pytest.mark.parametrize(
    ("lines", "decides"),
    [([11], 10), ([10], 10), ([13], None), ([14, 5], 2), ([14, 4], 2), ([15], 15), ([16], None), ([9], None)],
)
def test_a_condition_on_the_number_of_steps(lines: list[int], decides: int | None, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(OWN_LOOP)
    path = tuple(Frame("train" if line > 6 else "evaluate", str(script), line) for line in lines)
    found = decided_by(Observations(), path, validates=True)
    assert (found and found.line) == decides


@pytest.mark.parametrize(
    ("call", "validates", "decides"),
    [
        ("Trainer(\n    max_epochs=1,\n    val_check_interval=10,\n)", True, 3),
        ("Trainer(\n    max_epochs=1,\n    log_every_n_steps=1,\n)", False, 3),
        ("Trainer(\n    max_epochs=1,\n)", True, 1),
        ("Trainer(\n    max_epochs=1,\n)", False, None),
    ],
)
def test_a_setting_of_a_trainer(call: str, validates: bool, decides: int | None, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(f"{call}\n")
    made = SettingMade(0.0, 1, 1, function="Trainer", values=(), stack=(("<module>", str(script), 1),))
    found = decided_by(Observations(settings=[made]), (Frame("step", str(script), 1),), validates)
    assert found == (Frame("<module>", str(script), decides) if decides else None)


SCRIPT = """
import time
import {library} as lightning, torch
from torch import nn
from torch.utils.data import DataLoader

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, _):
        return self.layer(batch).mean()

    def validation_step(self, batch, _):
        time.sleep(0.05)
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)

data = DataLoader(torch.randn(400, 4), 4)
lightning.Trainer(
    max_epochs=-1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    val_check_interval=10,
).fit(Model(), data, DataLoader(torch.randn(40, 4), 4))
"""


@pytest.mark.parametrize(
    "library",
    [
        pytest.param("lightning", marks=pytest.mark.slow),
        pytest.param("pytorch_lightning", marks=pytest.mark.acceptance),
    ],
)
def test_the_trainer_of_lightning(library: str, workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workshop.diagnosis.stages.MAX_DURATION_S", 0.0)  # no trial that takes long
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT.format(library=library))
    done = workshop("measure", "--json", "--seconds", "2", "--no-headroom", "mine.py")
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["findings"][0]
    lines = script.read_text().splitlines()
    assert (first["cause"], lines[first["line"] - 1].strip()) == ("periodic-work", "time.sleep(0.05)")
    assert first["decided_in"] == [str(script), lines.index("    val_check_interval=10,") + 1]
    assert first["words"].endswith("val_check_interval=10,")


OF_TRANSFORMERS = """
import time
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

class Sentences(Dataset):
    def __init__(self, count, slow):
        self.count, self.slow = count, slow

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.slow:
            time.sleep(0.02)
        return {"input_ids": torch.arange(12) + index % 50, "labels": index % 2}

config = BertConfig(
    vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, num_labels=2
)
arguments = TrainingArguments(
    "trained", per_device_train_batch_size=8, num_train_epochs=100, report_to=[], use_cpu=True, disable_tqdm=True,
    save_strategy="no",
    eval_strategy="steps",
    eval_steps=10,
)
model = BertForSequenceClassification(config)
Trainer(model, arguments, train_dataset=Sentences(4096, False), eval_dataset=Sentences(24, True)).train()
"""


@pytest.mark.acceptance
def test_the_arguments_of_transformers(workshop: Run, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(OF_TRANSFORMERS)
    done = workshop("measure", "--json", "--seconds", "4", "--no-headroom", "mine.py")
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["findings"][0]
    lines = script.read_text().splitlines()
    assert (first["cause"], first["phase"]) == ("periodic-work", "validation")
    assert lines[first["line"] - 1].strip() == "time.sleep(0.02)"
    assert first["decided_in"] == [str(script), lines.index("    eval_steps=10,") + 1]
    assert first["words"].endswith("eval_steps=10,")
