"""Keeps evidence of what a training does, for the judge, and stops the training after each epoch.

After the last optimizer step of an epoch the process waits until the judge lets it go on: see `EvidenceRecorder.wait`.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import ref

import torch
from torch import distributed, nn
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader

from workshop.probe.activity import ActivityListener
from workshop.probe.batch_use import BatchUse
from workshop.probe.connection import Connection
from workshop.probe.copy_trace import end_copy_trace, start_copy_trace
from workshop.probe.epoch_length import MAX_STEPS, EpochLength
from workshop.probe.event_file import EventFile
from workshop.probe.events import (
    BatchCopied,
    LoaderStarted,
    OtherOptimizer,
    ParameterGroup,
    TrainedModel,
)
from workshop.probe.followed_model import FollowedModel
from workshop.probe.hooks import TrainingHooks
from workshop.probe.internals import is_transformed, tree_leaves
from workshop.probe.item_draws import LoadedBatch, draw_items
from workshop.probe.listener import Listener
from workshop.probe.messages import (
    DrawItems,
    EpochBegan,
    EpochEnded,
    EpochReport,
    ProbeFault,
    Proceed,
    Recomputation,
    Recompute,
    Repeat,
)
from workshop.probe.model_hooks import ModuleHook, is_trained
from workshop.probe.noted_inputs import item_of
from workshop.probe.noted_step import NotedPass, NotedStep, StepWriter
from workshop.probe.optimizers_of_other_models import OtherOptimizers, plain_settings
from workshop.probe.photo_reads import replaced_clocks
from workshop.probe.process_end import at_process_end
from workshop.probe.recomputation import recompute
from workshop.probe.recorded_step import StepRecorder, tensors_in_call
from workshop.probe.recorded_transform import repeat
from workshop.probe.retaking import Retaking
from workshop.probe.settings import ProbeConfig
from workshop.probe.sharding import inner_optimizer, is_flat, whole
from workshop.probe.signature import encode, signature
from workshop.probe.training_mode import TrainingMode
from workshop.probe.training_state import TrainingState

MAX_OTHER_INPUTS = 4
"""So many inputs beside those of the model's first argument are noted in a step."""


def _drops_items(loader: DataLoader[Any]) -> bool:
    """Return whether a DataLoader leaves out some of its items in each epoch, by chance others each time."""
    try:
        return bool(loader.drop_last and loader.batch_size and len(loader.sampler) % loader.batch_size)
    except TypeError:  # of an iterable dataset
        return False


class EvidenceRecorder(Listener):
    """Notes each step of the model that is trained: the first one with parameters that is called with gradients."""

    def __init__(self, config: ProbeConfig, judge: Connection, events: EventFile) -> None:
        assert config.judged
        self.judge, self.events = judge, events
        self.hooks = TrainingHooks(self, ActivityListener(config.folder))
        self.length = EpochLength(config.judged.epoch_steps, config.judged.max_epoch_s)
        self.steps_to_go: int | None = None  # until the script waits; None for an epoch
        self.recorder = StepRecorder(Path(config.folder), config.judged.sample_step, self.hooks.clock.leave_out)
        self.random_states, self.has_begun = config.judged.random_states, False
        self.loader: DataLoader[Any] | None = None  # of the training, that began last
        self.model: FollowedModel | None = None
        self.called_before: list[nn.Module] = []  # other models, as long as this one was not seen
        self.inner_hook: Any = None  # of the model, where that is not the one that the script calls
        self.optimizers: list[Optimizer] = []  # of the model's parameters
        self.others = OtherOptimizers()
        self.adaptive = False
        self.unseen_steps = 0  # of optimizers, as long as no model was seen
        self.early: Optimizer | None = None  # that is at work before a model was seen
        self.stepped: set[nn.Parameter] = set()  # in the step that is under way
        self.batch_use = BatchUse()
        self.mode = TrainingMode()
        self.in_validation = False  # whether the last batch was loaded to validate
        self.last_stepped: set[nn.Parameter] = set()  # in the last step
        self.retaking: Retaking | None = None  # of a recorded step
        self.retaken = 0  # so often the loop has taken a recorded step
        self.outputs: dict[int, ref[torch.Tensor]] = {}  # of all modules in this step, by where their memory begins
        self.steps: list[NotedStep] = []  # of this epoch
        self.step = NotedStep()  # that is under way
        self.is_over = False  # whether the last step is over, but for the steps of other models
        self.carried = NotedStep()  # the beginning of the first step of the next epoch
        self._pid = os.getpid()
        self.writer = StepWriter(events, config.run_index)
        self.copy_trace: Any = None  # of torch.profiler
        at_process_end(self.end)

    def on_fault(self, fault: str) -> None:
        """Tell the judge why it will see nothing more."""
        self.judge.send(ProbeFault(fault))

    def begin(self) -> None:
        """At the first sign of the training, tell the judge that the start-up is over."""
        if not self.has_begun:
            self.has_begun = True
            self.hooks.clock.restart()
            self.judge.send(EpochBegan())

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Note its length, which may be that of an epoch; a validation in the midst of an epoch begins none."""
        self.begin()
        self.mode.loader_began(self.model.root if self.model else None)
        self.before_batch()
        if not self.trains():
            return
        self.length.loader_began(loader)
        self.loader = loader
        kept = {"workers": loader.num_workers, "persistent": loader.persistent_workers, "drops": _drops_items(loader)}
        self.events.write(LoaderStarted, **kept)

    def on_batch(self, batch: Any) -> None:
        """Remember the batch, and the random states as it comes."""
        self.in_validation = not self.trains()
        if self.retaking or self.in_validation:
            return
        in_training_thread = self.hooks.clock.is_training_thread()
        self.length.batch_taken()
        self.batch_use.load(batch, in_training_thread)
        if in_training_thread and self.recorder.wants(len(self.steps)):
            self.recorder.note_random_states()

    def on_copy(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Note the copy of a batch, or of its targets; what is copied before the training begins is the model."""
        self.batch_use.copy(tensor, result)
        if self.has_begun and not self.retaking and tensor.ndim and tensor.numel():
            picture = encode(signature(tensor[:1])) if tensor.device.type == "cpu" else None
            self.events.write(BatchCopied, picture=picture, memory=result.data_ptr())

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note what enters the model; what torch.func transforms cannot be seen."""
        if is_transformed():
            return
        if self.model is None and is_trained(module):
            self.begin()
            self.follow(module)
        if self.model is None:
            has_parameters = next(module.parameters(), None) is not None
            if has_parameters and not self.in_validation and not any(module is each for each in self.called_before):
                self.called_before.append(module)
            return
        if module is self.model.root:
            self.mode.before_forward(module)
        number = None if self.retaking else self.number_of(module)
        if not self.trains():
            self.step.without_gradients += 0 if self.retaking else items_of(inputs, options)
        elif module is self.model.module:
            self.enter(inputs, options)
        elif number is not None:
            tensors = tensors_in_call(module, inputs, options)
            self.enter_others(tensors[:1])
            if self.is_sampled():
                self.recorder.enter(number, tensors, self.state())

    def trains(self) -> bool:
        """Return whether what is called now is of the training, and not of a validation, with gradients or without."""
        return torch.is_grad_enabled() and not (self.model and self.mode.validates(self.model.root))

    def number_of(self, module: nn.Module) -> int | None:
        """Return the number of a model: 0 for the one that is followed; None for a module of no interest."""
        return self.model.number_of(module, is_new=not self.in_validation) if self.model else None

    def is_sampled(self) -> bool:
        """Return whether the step that is under way is the one that the judge asks for."""
        return self.recorder.wants(len(self.steps) - self.is_over)

    def state(self) -> TrainingState:
        """Return what a step depends on and changes."""
        assert self.model
        others = [each.optimizer for each in self.others.known]
        models = [self.model.module, *self.model.others]
        return TrainingState(models, [*self.optimizers, *others], self.model.parameters)

    def follow(self, module: nn.Module) -> None:
        """Keep evidence of a model, from the innermost module on that has all of its parameters."""
        self.model = FollowedModel(module, self.called_before)
        if self.model.module is not module:
            enter = ModuleHook(self.hooks.audience.guard(lambda _, *call: self.enter_inside(*call)))
            self.inner_hook = self.model.module.register_forward_pre_hook(enter, with_kwargs=True)
        if self.early:  # the model is called in a closure, for the first time
            self.before_optimizer(self.early)

    def enter_inside(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note what enters a model inside the one that the script calls, or replace it."""
        self.enter(inputs, options)
        return self.retaking.inputs(self.model.module, inputs, options) if self.retaking and self.model else None

    def enter(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note what enters the model."""
        if self.model is None or not self.trains():
            return
        tensors = tensors_in_call(self.model.module, inputs, options)
        if not tensors or not tensors[0].ndim:
            return
        batch = tensors[0]
        if not batch.requires_grad:
            self.begin_step()
        if self.retaking:
            return
        if self.stepped:  # some parameters are never stepped
            self.end_step()
        entered = NotedPass.of(batch)
        if self.random_states:
            random_state = torch.get_rng_state().numpy().tobytes()
            entered.noted |= {"random_state": random_state, "random_seed": torch.initial_seed()}
            entered.item = item_of(batch) if batch.is_complex() else None
        entered.noted["is_output"] = batch.requires_grad or self.is_output(batch)
        self.step.forwards.append(entered)
        self.enter_others(tensors[1:])
        if len(self.step.forwards) > 2 * max(self.length.steps or 0, MAX_STEPS):
            self.wait(finished=False)  # it trains without ever stepping an optimizer
        if self.is_sampled():
            self.recorder.enter(0, tensors, self.state())
        self.look_for_batch(tensors)

    def enter_others(self, tensors: list[torch.Tensor]) -> None:
        """Note more inputs of the model, or those of others, where they are no outputs of a module."""
        for each in tensors:
            if len(self.step.other_inputs) >= MAX_OTHER_INPUTS:
                return
            if each.ndim and each.layout == torch.strided and not each.requires_grad and not self.is_output(each):
                entered = NotedPass.of(each)
                entered.noted["is_loaded"] = self.batch_use.is_loaded(each)
                self.step.other_inputs.append(entered)

    def look_for_batch(self, tensors: list[torch.Tensor]) -> None:
        """Note which batch these tensors come from: in the step that is recorded, and in the first of an epoch."""
        if not self.steps or self.recorder.wants(len(self.steps)):
            for each in tensors:
                self.batch_use.use(each)

    def is_output(self, batch: torch.Tensor) -> bool:
        """Return whether a module has made it in this step, such as a generator."""
        if batch.layout != torch.strided:
            return False
        of_module = self.outputs.get(batch.untyped_storage().data_ptr())
        return of_module is not None and of_module() is not None

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """Look at the output: if it is the loss itself, the module that computes it is the model."""
        is_loss = self.inner_hook and isinstance(output, torch.Tensor) and not output.ndim
        if is_loss and self.model and module is self.model.root:
            self.model.module = module
            self.inner_hook.remove()
            self.inner_hook = None
        if isinstance(output, torch.Tensor) and output.layout == torch.strided and not is_transformed():
            self.outputs[output.untyped_storage().data_ptr()] = ref(output)

    def on_loss(self, function: Callable[..., Any], args: Any, options: dict[str, Any], loss: torch.Tensor) -> None:
        """Note the targets, the second argument of a loss function."""
        targets = args[1] if len(args) > 1 else options.get("target")
        if self.trains() and self.step.forwards and isinstance(targets, torch.Tensor):
            self.step.forwards[-1].targets = targets.detach().clone()
            self.look_for_batch([targets])
            if self.is_sampled():
                self.recorder.on_loss(targets)

    def on_backward(self, tensors: Any) -> None:
        """Note a backward pass, and the loss."""
        first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
        if self.model is not None:
            self.mode.on_backward(self.model.root)
        if self.retaking:
            self.retaking.on_backward(first)
            return
        self.step.backwards += 1
        if self.is_sampled():
            self.recorder.on_backward(first)

    def on_adaptive_schedule(self) -> None:
        """Note that the learning rate depends on chance."""
        self.adaptive = True

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Record the settings of the step, if it is the one that the judge asks for."""
        if self.retaking:
            self.retaking.before_optimizer(optimizer)
            return
        if self.model is None:
            self.early = optimizer
            self.unseen_steps += 1
            if self.unseen_steps > MAX_STEPS:
                self.wait(finished=False)
            return
        if not self.optimizers:
            self.model.take_parameters()
        if self.model.share_of(optimizer):
            self.step.groups += tuple(
                ParameterGroup(type(inner_optimizer(optimizer)).__name__, len(group["params"]), plain_settings(group))
                for group in optimizer.param_groups
            )
            if not any(optimizer is known for known in self.optimizers):
                self.optimizers.append(optimizer)
            if not self.stepped:
                self.step.before = self.model.spots.values(self.optimizers)
        else:
            self.others.before_step(optimizer)
        if self.is_sampled():
            self.recorder.before_optimizer(optimizer, self.state())

    def after_optimizer(self, optimizer: Optimizer) -> None:
        """A step is over when all parameters have been stepped, by one optimizer or by several."""
        self.early = None
        if self.model is None:
            return
        share = self.model.share_of(optimizer)
        self.stepped = self.stepped | share if self.stepped else share
        if self.retaking:
            self.retaking.after_optimizer(optimizer)
            if not self.others.known:
                self.begin_step()
            return
        if self.is_sampled():
            self.recorder.after_optimizer(optimizer, self.state())
        if self.stepped and self.stepped >= self.model.trained:
            self.end_step()

    def end_step(self) -> None:
        """Note the step; perhaps the epoch ends with it.

        Where there are other models, they may still be stepped with what this step has computed. Their step belongs to
        it: it is over when the next batch is asked for. In the first step, it is not known yet whether there are any.
        """
        assert self.model
        is_first, self.last_stepped, self.stepped = not self.last_stepped, self.stepped, set()
        self.step.retaken = self.retaken
        self.step.after = self.model.spots.values(self.optimizers)
        self.step.parameter = whole(self.model.smallest.detach()).clone()
        self.steps.append(self.step)
        self.step, self.outputs = NotedStep(), {}
        self.length.step_ended(len(self.steps))
        self.is_over = True
        if not self.others.known and not is_first:
            self.begin_step()

    def begin_step(self) -> None:
        """Begin another step, if one is over: perhaps the epoch ended with it, and the script waits."""
        if self.retaking:
            self.retaking.begin_step()
            if self.has_retaken(self.retaking):
                self.obey()
        elif self.is_over:
            if self.is_sampled():
                self.recorder.after_step(self.state(), self.batch_use)
            self.is_over = False
            self.batch_use.next_step()
            if len(self.steps) == (self.steps_to_go or self.length.steps):
                self.carried, self.step = self.step, NotedStep()
                self.wait(finished=True)
            elif self.recorder.wants(len(self.steps)):
                self.begin_record()

    def begin_record(self) -> None:
        """Record what there is between the last step and the one that the judge asks for."""
        self.recorder.note_random_states()
        if self.model is not None:
            self.recorder.note_buffers(self.state())

    def before_batch(self) -> None:
        """A batch is asked for: if it is one to train on, the step before is over."""
        if self.trains() and self.hooks.clock.is_training_thread():
            self.begin_step()

    def wait(self, finished: bool) -> None:
        """Stop at the end of an epoch, hand over what was noted, and do what the judge asks for until it says go on."""
        self.report(finished)
        self.obey()

    def obey(self) -> None:
        """Do what the judge asks for; return when the script should go on: to train, or to take a recorded step."""
        batches = self.hooks.loading.batches
        while not isinstance(message := self.judge.receive(), Proceed):
            if isinstance(message, DrawItems):
                self.judge.send(draw_items(self.loaded(), message, self.events))
            elif isinstance(message, Repeat):
                for path in message.files:
                    self.judge.send(repeat(Path(path)))
            elif self.begins_to_retake(message):
                return
        self.steps, self.step, self.carried = [], self.carried, NotedStep()
        self.steps_to_go = message.steps
        self.recorder.sample_step, self.recorder.seconds = message.sample_step, 0.0
        batches.keeping, batches.replaying, batches.replayed = message.keep_batches, message.from_memory, 0
        if self.recorder.wants(0):
            self.begin_record()
        self.copy_trace = start_copy_trace() if message.trace_copies else None
        self.hooks.clock.restart()

    def loaded(self) -> LoadedBatch:
        """Return what of the last batch has entered the model."""
        return LoadedBatch(self.loader, self.batch_use.last, self.steps[-1].forwards if self.steps else [])

    def begins_to_retake(self, message: Recompute) -> bool:
        """Let the script's own loop take a recorded step; return False if that cannot be."""
        if self.model is None or not self.last_stepped:
            self.judge.send(Recomputation(error="this script's own step was not seen whole"))
            return False
        attempts = recompute([Path(sample) for sample in message.samples], self.state())
        about = self.hooks, self.state, self.number_of, self.batch_use, self.last_stepped
        self.retaking = Retaking(attempts, *about, self.trains)
        return not self.has_retaken(self.retaking)

    def has_retaken(self, retaking: Retaking) -> bool:
        """Return whether a recorded step has been taken as often as needed; then send what came of it."""
        if retaking.result is None:
            return False
        self.judge.send(replace(retaking.result, attempts=retaking.attempts))
        self.retaken += retaking.attempts
        self.retaking, self.stepped = None, set()
        return True

    def end(self) -> None:
        """As the script ends, hand over what was noted of an epoch that is not over."""
        if self.retaking or os.getpid() != self._pid:
            return  # a recorded step is none of the script's own, whose last epoch was handed over before
        if self.stepped:
            self.end_step()
        if self.steps:
            self.is_over = False
            self.report(finished=True, cut_short=True)

    def report(self, finished: bool, cut_short: bool = False) -> None:
        """Hand over what was noted of an epoch."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        clock = self.hooks.clock
        clock.adopt_thread()
        phases = clock.cut()
        self.judge.send(EpochEnded())  # the judge's clock stops here
        copies = end_copy_trace(self.copy_trace) if self.copy_trace else None
        self.copy_trace = None
        self.write_events()
        self.judge.send(
            EpochReport(
                finished=finished,
                steps=len(self.steps),
                phases=phases,
                sample=self.recorder.save(),
                replaced_clocks=replaced_clocks(),
                from_memory=self.hooks.loading.batches.replayed,
                copy_trace=copies,
                recording_s=self.recorder.seconds,
                cut_short=cut_short,
                whole_steps=self.length.whole_steps(len(self.steps)),
            )
        )

    def write_events(self) -> None:
        """Write the model and each step of the epoch. Only now are figures fetched from the device."""
        if not self.optimizers or self.model is None:
            return
        self.events.write(
            TrainedModel,
            parameters=[tuple(parameter.shape) for parameter in self.model.parameters],
            ranks=distributed.get_world_size() if distributed.is_initialized() else 1,
            adaptive=self.adaptive,
            is_flat=is_flat(self.model.root),
        )
        for other in self.others.epoch():
            self.events.write(OtherOptimizer, **other)
        for step in [*self.steps, self.step]:
            self.writer.write(step, self.model.spots)


def items_of(inputs: tuple[Any, ...], options: dict[str, Any]) -> int:
    """Return the number of items that a model is called with: the length of its first tensor."""
    tensors = (each for each in tree_leaves((inputs, options)) if isinstance(each, torch.Tensor) and each.ndim)
    return len(next(tensors, ()))
