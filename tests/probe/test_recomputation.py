"""A recorded step is computed over again."""

from pathlib import Path

import pytest
import torch
from torch import nn

from workshop.judge.step_proof import ROUNDING
from workshop.probe.recomputation import recompute
from workshop.probe.recorded_step import LossFunction, some_values


@pytest.mark.parametrize("share", ["items", "ranks"])
def test_a_step_that_ranks_took_together_is_computed_over_again(share: str, tmp_path: Path) -> None:
    """Whether they weight by items or by ranks; and another gradient is found out."""
    torch.manual_seed(0)
    model, loss = nn.Linear(3, 2), nn.functional.cross_entropy
    batches = [(torch.randn(size, 3), torch.randint(2, (size,))) for size in (3, 2)]
    before = [parameter.detach().clone() for parameter in model.parameters()]
    own = nn.Linear(3, 2)
    own.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    losses = []
    for batch, targets in batches:
        value = loss(own(batch), targets)
        losses.append(value.detach())
        (value * (len(batch) / 5 if share == "items" else 0.5)).backward()
    gradients = [parameter.grad for parameter in own.parameters()]
    optimizer.step()
    paths = []
    for number, ((batch, targets), value) in enumerate(zip(batches, losses, strict=True)):
        record = {
            "batch": batch,
            "targets": targets,
            "loss": value,
            "before": before,
            "gradients": gradients,
            "after": some_values(list(own.parameters()), [optimizer]),
            "state": [{}, {}],
            "groups": [("SGD", [{"lr": 0.1, "params": [0, 1]}])],
            "autocast": ("cpu", torch.bfloat16, False),
            "random": (torch.get_rng_state(), None),
            "buffers": [],
            "buffers_after": [],
        }
        paths.append(tmp_path / f"{number}.pt")
        torch.save(record, paths[-1])

    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
    found = recompute(paths, model, optimizers, LossFunction(loss))
    assert found.gradient_error < 1e-4
    assert max(found.gradient_errors) < ROUNDING
    assert found.step_error < 1e-4
    assert found.loss == pytest.approx(found.recorded_loss, rel=1e-5)
    assert recompute(paths[:1], model, optimizers, LossFunction(loss)).gradient_error > 0.1
