"""Tells a validation that computes with gradients switched on from the training.

The mode of the model tells them apart. Some train in evaluation mode, too, as to keep the statistics of a batch
normalisation: the DataLoader that goes on, or a backward pass, then shows it.
"""

import torch
from torch import nn


class TrainingMode:
    """Knows in which mode a model is trained."""

    def __init__(self) -> None:
        self._was_training = self._trains_in_evaluation = self._loads_to_train = False

    def loader_began(self, model: nn.Module | None) -> None:
        """Note that a DataLoader begins: its batches are to train on unless the model is in evaluation mode."""
        self._loads_to_train = model is None or model.training

    def before_forward(self, model: nn.Module) -> None:
        """Note a call of the model."""
        self._was_training |= model.training and torch.is_grad_enabled()

    def on_backward(self, model: nn.Module) -> None:
        """Note a backward pass."""
        self._trains_in_evaluation |= not model.training

    def validates(self, model: nn.Module) -> bool:
        """Return whether the model is validated now, with gradients switched on."""
        in_evaluation = self._was_training and not model.training and not self._loads_to_train
        return torch.is_grad_enabled() and in_evaluation and not self._trains_in_evaluation
