"""The training that evidence is kept of: the model that is followed, those beside it, and the optimizers of all."""

import operator
from collections.abc import Iterable
from weakref import WeakKeyDictionary

import torch
from torch import distributed, nn
from torch.optim.optimizer import Optimizer

from workshop.probe.averaged_copies import AveragedCopies
from workshop.probe.event_file import EventFile
from workshop.probe.events import OtherOptimizer, TrainedModel
from workshop.probe.gradient_scalers import GradientScalers
from workshop.probe.internals import is_compiled
from workshop.probe.optimizers import OtherOptimizers, parameters_of
from workshop.probe.sharding import is_flat
from workshop.probe.spots import Spots, SpotValues
from workshop.probe.training_state import TrainingState


class FollowedModel:
    """A model, its parameters, and the other models beside it."""

    def __init__(self, root: nn.Module, others: list[nn.Module]) -> None:
        self.root = root  # the module that the script calls
        self.module = innermost(root)  # that has all of its parameters
        self.others = others  # that the script calls, too, such as a teacher, in the order of their first calls
        self._shares = WeakKeyDictionary[Optimizer, tuple[list[nn.Parameter], set[nn.Parameter]]]()
        self.take_parameters()

    def take_parameters(self) -> None:
        """Take those that it has now: a model that is sharded has others while it is called than at its step."""
        self.parameters = list(self.module.parameters())
        self._known = set(self.parameters)
        self._shares.clear()
        self.smallest = min(self.parameters, key=torch.numel)  # of the fewest values
        self.trained = {parameter for parameter in self.parameters if parameter.requires_grad}
        self.spots = Spots(self.parameters)
        self.spots_of_buffers = Spots(list(self.module.buffers()))
        self.others = [each for each in self.others if self.is_foreign(each.parameters())]

    def is_foreign(self, parameters: Iterable[nn.Parameter]) -> bool:
        """Return whether there is one among some parameters that is not of this model."""
        return not self._known.issuperset(parameters)

    def share_of(self, optimizer: Optimizer) -> set[nn.Parameter]:
        """Return the parameters of the model that an optimizer steps."""
        stepped = parameters_of(optimizer)
        seen, share = self._shares.get(optimizer, ([], set()))
        if len(seen) != len(stepped) or not all(map(operator.is_, seen, stepped)):
            share = self._known.intersection(stepped)
            self._shares[optimizer] = stepped, share
        return share

    def number_of(self, module: nn.Module, is_new: bool) -> int | None:
        """Return the number of a model: 0 for this one, 1 for the first of the others.

        None for what is around this one, or a part of it, and for a module without parameters; and for one that was not
        called before, unless it `is_new` as other models are: an averaged copy is called in validations alone.
        """
        if module is self.module:
            return 0
        known = next((number for number, each in enumerate(self.others, 1) if each is module), None)
        if known is None and is_new and self.is_foreign(module.parameters()):
            self.others.append(module)
            return len(self.others)
        return known


def innermost(module: nn.Module) -> nn.Module:
    """Return the module inside of wrappers, frameworks and transforms of the input, which has all of the parameters."""
    children = [child for child in module.children() if not type(child).__module__.startswith("torchvision.transforms")]
    if len(children) != 1 or is_compiled(module) or isinstance(module, torch.jit.ScriptModule):
        return module
    has_all = sum(1 for _ in children[0].parameters()) == sum(1 for _ in module.parameters())
    return innermost(children[0]) if has_all else module


class FollowedTraining:
    """Knows what is trained, by what, and whether what is called now is of the training."""

    def __init__(self, scalers: GradientScalers | None = None) -> None:
        self.scalers = scalers or GradientScalers()
        self.model: FollowedModel | None = None  # the one that is followed, once it was called
        self.optimizers: list[Optimizer] = []  # of the model's parameters
        self.others = OtherOptimizers()
        self.mode = TrainingMode()
        self.in_validation = False  # whether the last batch was loaded to validate
        self.adaptive = False  # whether the learning rate depends on chance
        self.copies = AveragedCopies()
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
        return TrainingState(
            models, [*self.optimizers, *others], self.model.parameters, self.copies.found, self.scalers
        )

    def look_for_copies(self) -> None:
        """Look for copies of the model that its steps change, too."""
        assert self.model
        self.copies.look(self.model.parameters, self.model.others)

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
