"""The loop of a real script takes a step of another run of it, and comes to the same to the last bit."""

from pathlib import Path

import pytest

from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger
from workshop.probe.messages import Proceed
from workshop.processes.script import run_folder

FOREIGN = Path(__file__).parents[1] / "foreign"

BEGIN = """
import math
import torch
from torch import nn
"""

WITHOUT_LOADER = """
torch.manual_seed(1)  # both runs have the same data
x, weights = torch.randn(500, 32), torch.randn(32, 4)
y = (x @ weights).sin()
net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 4))
optimizer = torch.optim.AdamW(net.parameters())
step = 0
while True:
    optimizer.param_groups[0]["lr"] = 1e-3 * min(1, (step + 1) / 100) * (0.5 + 0.5 * math.cos(step / 300))
    rows = torch.randint(len(x), (16,))
    loss = ((net(x[rows]) - y[rows]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    step += 1
"""
"""A loss of its own, and a learning rate that follows from a counter."""

CRITIC_FIRST = """
generator = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 64))
critic = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(), nn.Linear(32, 1))
of_generator, of_critic = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
loss = nn.BCEWithLogitsLoss()
loader = torch.utils.data.DataLoader(torch.randn(40, 64), 8, shuffle=True)
while True:
    for real in loader:
        one, zero = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        of_critic.zero_grad()
        loss(critic(real), one).backward()
        fake = generator(torch.randn(len(real), 16))
        loss(critic(fake.detach()), zero).backward()
        of_critic.step()
        of_generator.zero_grad()
        loss(critic(fake), one).backward()
        of_generator.step()
"""
"""The generator steps with what was computed before the critic stepped."""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(CRITIC_FIRST, id="critic-first"),
        pytest.param(WITHOUT_LOADER, id="without-loader"),
        pytest.param(FOREIGN / "several_models.py", marks=pytest.mark.slow, id="several-models"),
        pytest.param(FOREIGN / "accumulation.py", marks=pytest.mark.slow, id="accumulation"),
        pytest.param(FOREIGN / "iterable.py", marks=pytest.mark.slow, id="iterable"),
    ],
)
def test_a_loop_takes_a_step_of_another_run(script: str | Path, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(BEGIN + script if isinstance(script, str) else script.read_text())
    with (
        run_folder() as one_folder,
        run_folder() as other_folder,
        JudgedScript([str(path)], one_folder) as one,
        JudgedScript([str(path)], other_folder) as other,
    ):
        for each in one, other:
            each.epoch()
        steps = one.epoch_steps or 0
        for sampled in 1, steps - 1:
            sample = other.epoch(Proceed(sampled)).sample
            assert sample
            found = one.recompute(sample)
            assert found.error is None
            assert found.loss == pytest.approx(found.recorded_loss)
            assert (found.gradient_error, found.step_error, found.state_error, found.buffer_error) == (0, 0, 0, 0)
            one.epoch()
        ledger = Ledger.of(one_folder)
        assert len(ledger.optimizer_steps) == 3 * steps, "the steps of the other run are not its own"
