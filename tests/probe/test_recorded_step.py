"""A recorded step is computed over again."""

from pathlib import Path

import pytest
import torch
from torch import nn

from workshop.probe.recorded_step import LossFunction, recompute


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
    optimizer.step()
    paths = []
    for number, ((batch, targets), value) in enumerate(zip(batches, losses, strict=True)):
        after = [parameter.detach() for parameter in own.parameters()]
        record = {
            "batch": batch,
            "targets": targets,
            "loss": value,
            "before": before,
            "after": after,
            "state": [{}, {}],
            "buffers": [],
            "buffers_after": [],
        }
        paths.append(tmp_path / f"{number}.pt")
        torch.save(record, paths[-1])

    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
    found = recompute(paths, model, optimizers, LossFunction(loss))
    assert found.update_error < 1e-4
    assert found.loss == pytest.approx(found.recorded_loss, rel=1e-5)
    assert recompute(paths[:1], model, optimizers, LossFunction(loss)).update_error > 0.1
