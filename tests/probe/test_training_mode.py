"""A validation with gradients switched on is told from the training, also where that is in evaluation mode."""

import torch
from torch import nn

from workshop.probe.followed_training import TrainingMode


def test_a_model_in_evaluation_mode_validates_once_it_was_trained_otherwise() -> None:
    mode, model = TrainingMode(), nn.Linear(2, 2)
    model.eval()
    mode.before_forward(model)
    assert not mode.validates(model), "it may be trained so"
    model.train()
    mode.before_forward(model)
    mode.on_backward(model)
    assert not mode.validates(model)
    model.eval()
    assert mode.validates(model)
    with torch.no_grad():
        assert not mode.validates(model), "there are no gradients then"


def test_a_backward_pass_shows_that_it_is_trained_in_evaluation_mode() -> None:
    mode, model = TrainingMode(), nn.Linear(2, 2)
    mode.before_forward(model)
    model.eval()
    assert mode.validates(model)
    mode.on_backward(model)
    assert not mode.validates(model)


def test_a_loader_that_goes_on_while_the_mode_changes_loads_to_train() -> None:
    mode, model = TrainingMode(), nn.Linear(2, 2)
    mode.loader_began(None)
    mode.before_forward(model)
    model.eval()
    assert not mode.validates(model)
    mode.loader_began(model)
    assert mode.validates(model), "this one began in evaluation mode"
