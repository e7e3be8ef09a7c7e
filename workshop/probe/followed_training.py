"""The training that evidence is kept of: the model that is followed, those beside it, and the optimizers of all."""

import torch
from torch import distributed, nn
from torch.optim.optimizer import Optimizer

from workshop.probe.event_file import EventFile
from workshop.probe.events import OtherOptimizer, TrainedModel
from workshop.probe.followed_model import FollowedModel
from workshop.probe.optimizers_of_other_models import OtherOptimizers
from workshop.probe.sharding import is_flat
from workshop.probe.spots import SpotValues
from workshop.probe.training_state import TrainingState


class FollowedTraining:
    """Knows what is trained, by what, and whether what is called now is of the training."""

    def __init__(self) -> None:
        self.model: FollowedModel | None = None  # the one that is followed, once it was called
        self.optimizers: list[Optimizer] = []  # of the model's parameters
        self.others = OtherOptimizers()
        self.mode = TrainingMode()
        self.in_validation = False  # whether the last batch was loaded to validate
        self.adaptive = False  # whether the learning rate depends on chance
        self._called_before: list[nn.Module] = []  # other models, as long as this one was not seen

    def called_before(self, module: nn.Module) -> None:
        """Remember a model that is called before the one that is followed, such as a teacher."""
        has_parameters = next(module.parameters(), None) is not None
        if has_parameters and not self.in_validation and not any(module is each for each in self._called_before):
            self._called_before.append(module)

    def follow(self, module: nn.Module) -> FollowedModel:
        """Follow a model, from the innermost module on that has all of its parameters."""
        self.model = FollowedModel(module, self._called_before)
        return self.model

    def trains(self) -> bool:
        """Return whether what is called now is of the training, and not of a validation, with gradients or without."""
        return torch.is_grad_enabled() and not (self.model and self.mode.validates(self.model.root))

    def number_of(self, module: nn.Module) -> int | None:
        """Return the number of a model: 0 for the one that is followed; None for a module of no interest."""
        return self.model.number_of(module, is_new=not self.in_validation) if self.model else None

    def before_step(self, optimizer: Optimizer) -> bool:
        """Note an optimizer that is about to step; return whether it steps parameters of the model."""
        assert self.model
        if not self.optimizers:
            self.model.take_parameters()
        if not self.model.share_of(optimizer):
            self.others.before_step(optimizer)
            return False
        if not any(optimizer is known for known in self.optimizers):
            self.optimizers.append(optimizer)
        return True

    def values(self) -> SpotValues:
        """Return some values of the model's parameters, and of its optimizers' state."""
        assert self.model
        return self.model.spots.values(self.optimizers)

    def state(self) -> TrainingState:
        """Return what a step depends on and changes."""
        assert self.model
        others = [each.optimizer for each in self.others.known]
        models = [self.model.module, *self.model.others]
        return TrainingState(models, [*self.optimizers, *others], self.model.parameters)

    def write(self, events: EventFile) -> None:
        """Write which model is trained, and what the optimizers of others have done in this epoch."""
        assert self.model
        events.write(
            TrainedModel,
            parameters=[tuple(parameter.shape) for parameter in self.model.parameters],
            ranks=distributed.get_world_size() if distributed.is_initialized() else 1,
            adaptive=self.adaptive,
            is_flat=is_flat(self.model.root),
        )
        for other in self.others.epoch():
            events.write(OtherOptimizer, **other)


class TrainingMode:
    """Tells a validation that computes with gradients switched on from the training.

    The mode of the model tells them apart. Some train in evaluation mode, too, as to keep the statistics of a batch
    normalisation: the DataLoader that goes on, or a backward pass, then shows it.
    """

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
