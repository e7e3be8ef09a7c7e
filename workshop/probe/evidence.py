"""Keeps evidence of what a training does, for the judge, and stops the training after each epoch.

Here the hooks are heard. `followed_training.py` knows what is trained, `noted_epoch.py` has what was noted of it, and
after the last optimizer step of an epoch the process waits until the judge lets it go on: see `judge_talk.py`.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader

from workshop.probe.activity import ActivityListener
from workshop.probe.connection import Connection
from workshop.probe.event_file import EventFile
from workshop.probe.events import BatchCopied, LoaderStarted
from workshop.probe.followed_training import FollowedTraining
from workshop.probe.held_files import HeldFiles
from workshop.probe.hooks import TrainingHooks
from workshop.probe.internals import is_transformed, tree_leaves
from workshop.probe.item_addresses import Addresses
from workshop.probe.judge_talk import JudgeTalk
from workshop.probe.listener import Listener
from workshop.probe.messages import ProbeFault
from workshop.probe.model_hooks import ModuleHook, is_trained
from workshop.probe.noted_epoch import NotedEpoch
from workshop.probe.noted_step import StepWriter
from workshop.probe.optimizers import is_only_asked
from workshop.probe.process_end import at_process_end
from workshop.probe.recorded_step import StepRecorder, tensors_in_call
from workshop.probe.settings import MAX_EPOCH_STEPS, ProbeConfig
from workshop.probe.signature import encode, signature


class EvidenceRecorder(Listener):
    """Notes each step of the model that is trained: the first one with parameters that is called with gradients."""

    def __init__(self, config: ProbeConfig, judge: Connection, events: EventFile) -> None:
        assert config.judged
        self.judge, self.events = judge, events
        addresses = Addresses(events, lambda: self.epoch.length.share_seeded)
        self.hooks = TrainingHooks(self, ActivityListener(config.folder), addresses=addresses)
        self.training = FollowedTraining(self.hooks.scalers)
        recorder = StepRecorder(Path(config.folder), config.judged.sample_step, self.hooks.clock.leave_out)
        self.epoch = NotedEpoch(config.judged, self.training, recorder, StepWriter(events, config.run_index))
        self.talk = JudgeTalk(judge, events, self.hooks, self.epoch, HeldFiles(events, config.run_index))
        self.inner_hook: Any = None  # of the model, where that is not the one that the script calls
        self.unseen_steps = 0  # of optimizers, as long as no model was seen
        self.early: Optimizer | None = None  # that is at work before a model was seen
        self._pid = os.getpid()
        at_process_end(self.end)

    def on_fault(self, fault: str) -> None:
        """Tell the judge why it will see nothing more."""
        self.judge.send(ProbeFault(fault))

    # Loading

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Note its length, which may be that of an epoch; a validation in the midst of an epoch begins none."""
        self.talk.begin()
        self.training.mode.loader_began(self.training.model.root if self.training.model else None)
        self.before_batch()
        if not self.training.trains():
            return
        if self.hooks.clock.is_training_thread() and not self.talk.retaking and self.epoch.comes_round(loader):
            self.talk.wait(finished=True)
        self.events.write(
            LoaderStarted,
            workers=loader.num_workers,
            persistent=loader.persistent_workers,
            ahead=loader.num_workers * (loader.prefetch_factor or 0),
            drops=_drops_items(loader),
            items=_items(loader),
            of=_length(loader.dataset),
            dataset=self.epoch.loader_began(loader),
        )

    def before_batch(self) -> None:
        """A batch is asked for: if it is one to train on, the step before is over."""
        if self.training.trains() and self.hooks.clock.is_training_thread():
            self.begin_step()

    def on_batch(self, batch: Any) -> None:
        """Remember the batch, and the random states as it comes."""
        self.training.in_validation = not self.training.trains()
        loading = self.hooks.loading
        if self.talk.retaking and not self.training.in_validation:
            self.epoch.batches.load_meanwhile(batch, loading.source)
        elif not self.training.in_validation:
            self.epoch.load(batch, self.hooks.clock.is_training_thread(), loading.source, loading.address)

    def on_copy(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Note the copy of a batch, or of its targets; what is copied before the training begins is the model."""
        self.epoch.batches.copy(tensor, result)
        is_batch = tensor.layout == torch.strided and tensor.ndim and tensor.numel()
        if self.talk.has_begun and not self.talk.retaking and is_batch:
            picture = encode(signature(tensor[:1])) if tensor.device.type == "cpu" else None
            self.events.write(BatchCopied, picture=picture, memory=result.data_ptr())

    # Models, losses and gradients

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note what enters the model; what torch.func transforms cannot be seen."""
        if is_transformed():
            return
        training = self.training
        if training.model is None and is_trained(module) and (self.unseen_steps or not is_only_asked(module)):
            self.talk.begin()
            self.follow(module)
        if training.model is None:
            training.called_before(module)
            return
        if module is training.model.root:
            training.mode.before_forward(module)
        number = None if self.talk.retaking else training.number_of(module)
        if not training.trains():
            self.epoch.step.without_gradients += 0 if self.talk.retaking else _items_of(inputs, options)
        elif module is training.model.module:
            self.enter(inputs, options)
        elif number is not None:
            tensors = tensors_in_call(module, inputs, options)
            self.epoch.enter_others(tensors[:1])
            self.epoch.record_inputs(number, tensors)
            self.epoch.look_for_batch(tensors)

    def follow(self, module: nn.Module) -> None:
        """Keep evidence of a model."""
        model = self.training.follow(module)
        if model.module is not module:
            enter = ModuleHook(self.hooks.audience.guard(lambda _, *call: self.enter_inside(*call)))
            self.inner_hook = model.module.register_forward_pre_hook(enter, with_kwargs=True)
        if self.early:  # the model is called in a closure, for the first time
            self.before_optimizer(self.early)

    def enter_inside(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note what enters a model inside the one that the script calls, or replace it."""
        self.enter(inputs, options)
        model, retaking = self.training.model, self.talk.retaking
        return retaking.inputs(model.module, inputs, options) if retaking and model else None

    def enter(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note what enters the model."""
        if self.training.model is None or not self.training.trains():
            return
        tensors = tensors_in_call(self.training.model.module, inputs, options)
        if not tensors or not tensors[0].ndim:
            return
        if not tensors[0].requires_grad:
            self.begin_step()
        if self.talk.retaking:
            return
        if self.epoch.stepped:  # some parameters are never stepped
            self.end_step()
        self.epoch.enter(tensors)
        if self.epoch.never_steps():
            self.talk.wait(finished=False)
        self.epoch.record_inputs(0, tensors)
        self.epoch.look_for_batch(tensors)

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """Look at the output: if it is the loss itself, the module that computes it is the model."""
        if not isinstance(output, torch.Tensor):
            return
        model = self.training.model
        if self.inner_hook and not output.ndim and model and module is model.root:
            model.module = module
            self.inner_hook.remove()
            self.inner_hook = None
        if output.layout == torch.strided and not is_transformed() and _learns(module):
            self.epoch.put_out(output)

    def on_loss(self, function: Callable[..., Any], args: Any, options: dict[str, Any], loss: torch.Tensor) -> None:
        """Note the targets, the second argument of a loss function."""
        targets = args[1] if len(args) > 1 else options.get("target")
        if self.training.trains() and self.epoch.step.forwards and isinstance(targets, torch.Tensor):
            self.epoch.on_loss(targets)

    def on_backward(self, tensors: Any) -> None:
        """Note a backward pass, and the loss."""
        first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
        if self.training.model is not None:
            self.training.mode.on_backward(self.training.model.root)
        if self.talk.retaking:
            self.talk.retaking.step.on_backward(first)
        else:
            self.epoch.on_backward(first)

    # Steps

    def on_adaptive_schedule(self) -> None:
        """Note that the learning rate depends on chance."""
        self.training.adaptive = True

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Record the settings of the step, if it is the one that the judge asks for."""
        if self.talk.retaking:
            self.talk.retaking.step.before_optimizer(optimizer)
        elif self.training.model is not None:
            self.epoch.before_optimizer(optimizer)
        else:
            self.early = optimizer
            self.unseen_steps += 1
            if self.unseen_steps > MAX_EPOCH_STEPS:
                self.talk.wait(finished=False)

    def after_optimizer(self, optimizer: Optimizer, is_skipped: bool = False) -> None:
        """A step is over when all parameters have been stepped, by one optimizer or by several."""
        self.early = None
        if self.training.model is None:
            return
        if self.talk.retaking:
            self.talk.retaking.after_optimizer(optimizer, is_skipped)
            if not self.training.others.known and not self.talk.retaking.step.goes_on:
                self.begin_step()
        elif self.epoch.after_optimizer(optimizer, is_skipped):
            self.end_step()

    def on_skipped_step(self, optimizer: Optimizer) -> None:
        """A step that is left out as its gradients are not finite is one of the training: it moves nothing."""
        if self.training.model is not None and not self.talk.retaking:
            self.epoch.before_optimizer(optimizer)
        self.after_optimizer(optimizer, is_skipped=True)

    def end_step(self) -> None:
        """Note the step; perhaps the epoch ends with it.

        Where there are other models, they may still be stepped with what this step has computed. Their step belongs to
        it: it is over when the next batch is asked for. In the first step, it is not known yet whether there are any.
        """
        is_first = not self.epoch.last_stepped
        self.epoch.end_step()
        if not self.training.others.known and not is_first and not self.epoch.goes_on():
            self.begin_step()

    def begin_step(self) -> None:
        """Begin another step, if one is over: perhaps the epoch ended with it, and the script waits."""
        if self.talk.retaking:
            self.talk.begin_step(self.talk.retaking)
        elif self.epoch.is_over and self.epoch.begin_step():
            self.talk.wait(finished=True)

    def end(self) -> None:
        """As the script ends, hand over what was noted of an epoch that is not over."""
        if self.talk.retaking or os.getpid() != self._pid:
            return  # a recorded step is none of the script's own, whose last epoch was handed over before
        if self.epoch.stepped:
            self.end_step()
        if self.epoch.steps:
            self.epoch.is_over = False
            self.talk.report(finished=True, cut_short=True)


def _drops_items(loader: DataLoader[Any]) -> bool:
    """Return whether a DataLoader leaves out some of its items in each epoch, by chance others each time."""
    try:
        return bool(loader.drop_last and loader.batch_size and len(loader.sampler) % loader.batch_size)
    except TypeError:  # of an iterable dataset
        return False


def _length(sized: Any) -> int | None:
    try:
        return len(sized)
    except TypeError:  # of an iterable dataset, or a sampler without end
        return None


def _items(loader: DataLoader[Any]) -> int | None:
    """Return how many items an epoch of a DataLoader has; None if it does not draw single ones, or does not say."""
    size = getattr(loader.batch_sampler, "batch_size", None)
    items = _length(getattr(loader.batch_sampler, "sampler", None))
    if not size or items is None:
        return None
    return items // size * size if loader.drop_last else items


def _learns(module: nn.Module) -> bool:
    """Return whether a module has parameters that are trained, now or at another time."""
    return any(each.requires_grad for each in nn.Module.parameters(module))


def _items_of(inputs: tuple[Any, ...], options: dict[str, Any]) -> int:
    """Return the number of items that a model is called with: the length of its first tensor."""
    tensors = (each for each in tree_leaves((inputs, options)) if isinstance(each, torch.Tensor) and each.ndim)
    return len(next(tensors, ()))
