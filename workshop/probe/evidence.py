"""Keeps evidence of what a training does, for the judge, and stops the training after each epoch.

After the last optimizer step of an epoch the process waits until the judge lets it go on: see `EvidenceRecorder.wait`.
"""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic  # the script may replace that of the module
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
from workshop.probe.event_file import EventFile
from workshop.probe.events import (
    BatchCopied,
    LoaderStarted,
    OtherOptimizer,
    ParameterGroup,
    TrainedModel,
)
from workshop.probe.hooks import ModuleHook, TrainingHooks, is_trained
from workshop.probe.internals import is_compiled, is_transformed, tree_leaves
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
from workshop.probe.noted_inputs import item_of, rows_of
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
from workshop.probe.spots import Spots
from workshop.probe.training_state import TrainingState

MAX_STEPS = 50
"""The number of steps in an epoch, unless the judge or the DataLoader asks for fewer."""

MAX_EPOCH_S = 20.0
MIN_STEPS = 3
"""An epoch ends after this many seconds from its first step, if no other time is asked for, but not before this many
steps."""

LOOKED_AT = 2
"""In this many steps of each epoch, it is looked for what of a batch enters the model."""


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
        self.epoch_steps = config.judged.epoch_steps
        self.steps_to_go: int | None = None  # until the script waits; None for an epoch
        self.recorder = StepRecorder(Path(config.folder), config.judged.sample_step, self.hooks.clock.leave_out)
        self.random_states, self.max_epoch_s = config.judged.random_states, config.judged.max_epoch_s
        self.has_begun = False
        self.began_s = monotonic()
        self.loaded: LoadedBatch | None = None
        self.batches: int | None = None  # of the DataLoader that began last
        self.loaders_begun = self.batches_taken = 0  # since the run began
        self.root: nn.Module | None = None  # that the script calls
        self.model: nn.Module | None = None  # inside of it
        self.inner_hook: Any = None  # of the model, where that is not the root
        self.parameters: list[nn.Parameter] = []
        self.known_parameters: set[nn.Parameter] = set()
        self.trained: set[nn.Parameter] = set()
        self.spots = Spots([])
        self.optimizers: list[Optimizer] = []  # of the model's parameters
        self.others = OtherOptimizers()
        self.adaptive = False
        self.unseen_steps = 0  # of optimizers, as long as no model was seen
        self.early: Optimizer | None = None  # that is at work before a model was seen
        self.stepped: set[nn.Parameter] = set()  # in the step that is under way
        self.other_models: list[nn.Module] = []  # that the script calls, in the order of their first calls
        self.batch_use = BatchUse()
        self.in_validation = False  # whether the last batch was loaded without gradients
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
            self.began_s = monotonic()
            self.hooks.clock.restart()
            self.judge.send(EpochBegan())

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Note its length, which may be that of an epoch; a validation in the midst of an epoch begins none."""
        self.begin()
        self.before_batch()
        if not torch.is_grad_enabled() or (self.root is not None and not self.root.training):
            return
        try:
            self.batches = len(loader)
        except TypeError:  # of an iterable dataset
            self.batches = None
        self.loaders_begun += 1
        if self.loaded is None or self.loaded.loader is not loader:
            self.loaded = LoadedBatch(loader, None)
        kept = {"workers": loader.num_workers, "persistent": loader.persistent_workers, "drops": _drops_items(loader)}
        self.events.write(LoaderStarted, **kept)

    def on_batch(self, batch: Any) -> None:
        """Remember the batch, and the random states as it comes; in the first steps, see what becomes of it."""
        self.in_validation = not torch.is_grad_enabled()
        if self.retaking or self.in_validation:
            return
        in_training_thread = self.hooks.clock.is_training_thread()
        self.batches_taken += self.root is None or self.root.training
        self.batch_use.load(batch, in_training_thread)
        if in_training_thread and self.recorder.wants(len(self.steps)):
            self.recorder.note_random_states()
        if self.loaded is not None:
            self.loaded.batch = batch if len(self.steps) < LOOKED_AT else None

    def on_copy(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Note the copy of a batch, or of its targets; what is copied before the training begins is the model."""
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
            self.number_of(module)  # such as a teacher that is called first
            return
        if not torch.is_grad_enabled() and not self.retaking:
            self.step.without_gradients += items_of(inputs, options)
        if module is self.model:
            self.enter(inputs, options)
        elif not self.retaking and (number := self.number_of(module)) is not None and self.is_sampled():
            self.recorder.enter(number, tensors_in_call(module, inputs, options), self.state())

    def number_of(self, module: nn.Module) -> int | None:
        """Return the number of a model: 0 for the one that is followed, 1 for the first of the others.

        None for what is around the followed one, or a part of it, for a module without parameters, and for one that is
        called for the first time in a validation, such as an averaged copy.
        """
        if module is self.model:
            return 0
        known = next((number for number, each in enumerate(self.other_models, 1) if each is module), None)
        if (
            known is None
            and not self.in_validation
            and any(each not in self.known_parameters for each in module.parameters())
        ):
            self.other_models.append(module)
            return len(self.other_models)
        return known

    def is_sampled(self) -> bool:
        """Return whether the step that is under way is the one that the judge asks for."""
        return torch.is_grad_enabled() and self.recorder.wants(len(self.steps) - self.is_over)

    def state(self) -> TrainingState:
        """Return what a step depends on and changes."""
        assert self.model is not None
        others = [each.optimizer for each in self.others.known]
        return TrainingState([self.model, *self.other_models], [*self.optimizers, *others], self.parameters)

    def follow(self, module: nn.Module) -> None:
        """Keep evidence of a model, from the innermost module on that has all of its parameters."""
        self.root, self.model = module, innermost(module)
        self.follow_parameters(self.model)
        if self.model is not module:
            enter = ModuleHook(self.hooks.guard(lambda _, *call: self.enter_inside(*call)))
            self.inner_hook = self.model.register_forward_pre_hook(enter, with_kwargs=True)
        if self.early:  # the model is called in a closure, for the first time
            self.before_optimizer(self.early)

    def follow_parameters(self, model: nn.Module) -> None:
        """Follow those that the model has now: one that is sharded has others while it is called than at its step."""
        self.parameters = list(model.parameters())
        self.known_parameters = set(self.parameters)
        self.other_models = [
            each for each in self.other_models if not self.known_parameters.issuperset(each.parameters())
        ]
        self.trained = {parameter for parameter in self.parameters if parameter.requires_grad}
        self.spots = Spots(self.parameters)

    def enter_inside(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note what enters a model inside the one that the script calls, or replace it."""
        self.enter(inputs, options)
        return self.retaking.inputs(self.model, inputs, options) if self.retaking and self.model is not None else None

    def enter(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note what enters the model."""
        if self.model is None or not torch.is_grad_enabled():
            return
        tensors = tensors_in_call(self.model, inputs, options)
        if not tensors or not tensors[0].ndim:
            return
        batch = tensors[0]
        if not batch.requires_grad:
            self.begin_step()
        if self.retaking:
            return
        if self.stepped:  # some parameters are never stepped
            self.end_step()
        if self.loaded is not None and self.loaded.batch is not None and not self.step.forwards:
            self.loaded.entered(batch)
        device = batch.device.type
        noted = {
            "t": monotonic(),
            "shape": tuple(batch.shape),
            "dtype": str(batch.dtype).removeprefix("torch."),
            "device": device,
            "autocast": torch.is_autocast_enabled(device),
        }
        if self.random_states:
            noted |= {"random_state": torch.get_rng_state().numpy().tobytes(), "random_seed": torch.initial_seed()}
        noted["is_output"] = batch.requires_grad or self.is_output(batch)
        item = item_of(batch) if self.random_states and batch.is_complex() else None
        self.step.forwards.append(NotedPass(noted, signature(batch), rows_of(batch), item=item))
        if len(self.step.forwards) > 2 * max(self.epoch_steps or 0, MAX_STEPS):
            self.wait(finished=False)  # it trains without ever stepping an optimizer
        if self.is_sampled():
            self.recorder.enter(0, tensors, self.state())
        self.look_for_batch(tensors)

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
        if module is self.root and self.inner_hook and isinstance(output, torch.Tensor) and not output.ndim:
            self.model = module
            self.inner_hook.remove()
            self.inner_hook = None
        if isinstance(output, torch.Tensor) and output.layout == torch.strided and not is_transformed():
            self.outputs[output.untyped_storage().data_ptr()] = ref(output)

    def on_loss(self, function: Callable[..., Any], args: Any, options: dict[str, Any], loss: torch.Tensor) -> None:
        """Note the targets, the second argument of a loss function."""
        targets = args[1] if len(args) > 1 else options.get("target")
        if torch.is_grad_enabled() and self.step.forwards and isinstance(targets, torch.Tensor):
            self.step.forwards[-1].targets = targets.detach().clone()
            self.look_for_batch([targets])
            if self.loaded is not None and self.loaded.batch is not None and len(self.step.forwards) == 1:
                self.loaded.compared(targets.detach(), self.step.forwards[0].noted["shape"][0])
            if self.recorder.wants(len(self.steps) - self.is_over):
                self.recorder.on_loss(targets)

    def on_backward(self, tensors: Any) -> None:
        """Note a backward pass, and the loss."""
        first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
        if self.retaking:
            self.retaking.on_backward(first)
            return
        self.step.backwards += 1
        if self.recorder.wants(len(self.steps) - self.is_over):
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
            self.follow_parameters(self.model)
        if not self.of_model(optimizer):
            self.others.before_step(optimizer)
            if self.is_sampled():
                self.recorder.before_optimizer(optimizer, self.state())
            return
        self.step.groups += tuple(
            ParameterGroup(type(inner_optimizer(optimizer)).__name__, len(group["params"]), plain_settings(group))
            for group in optimizer.param_groups
        )
        if not any(optimizer is known for known in self.optimizers):
            self.optimizers.append(optimizer)
        if not self.stepped:
            self.step.before = self.spots.values(self.optimizers)
        if self.is_sampled():
            self.recorder.before_optimizer(optimizer, self.state())

    def after_optimizer(self, optimizer: Optimizer) -> None:
        """A step is over when all parameters have been stepped, by one optimizer or by several."""
        self.early = None
        self.stepped |= self.of_model(optimizer)
        if self.retaking:
            self.retaking.after_optimizer(optimizer)
            if not self.others.known:
                self.begin_step()
            return
        if self.model is not None and self.is_sampled():
            self.recorder.after_optimizer(optimizer, self.state())
        if self.stepped and self.stepped >= self.trained:
            self.end_step()

    def of_model(self, optimizer: Optimizer) -> set[nn.Parameter]:
        """Return the parameters of the model that an optimizer steps."""
        return {parameter for group in optimizer.param_groups for parameter in group["params"]} & self.known_parameters

    def end_step(self) -> None:
        """Note the step; perhaps the epoch ends with it.

        Where there are other models, they may still be stepped with what this step has computed. Their step belongs to
        it: it is over when the next batch is asked for.
        """
        self.last_stepped, self.stepped = self.stepped, set()
        self.step.retaken = self.retaken
        self.step.after = self.spots.values(self.optimizers)
        self.step.parameter = whole(min(self.parameters, key=torch.numel).detach()).clone()
        self.steps.append(self.step)
        self.step, self.outputs = NotedStep(), {}
        if self.epoch_steps is None and self.is_enough():
            self.epoch_steps = len(self.steps)
        self.is_over = True
        if not self.others.known:
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
            if len(self.steps) == (self.steps_to_go or self.epoch_steps):
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
        """A batch is asked for: the step before is over."""
        if torch.is_grad_enabled() and self.hooks.clock.is_training_thread():
            self.begin_step()

    def is_enough(self) -> bool:
        """Return whether the first epoch is over: as the DataLoader of its first step says, or part of a long one.

        Once half of a short DataLoader has gone by, the other half is waited for: the last batch may be a special one.
        """
        if len(self.steps) == 1:
            self.began_s = monotonic()  # how long it took to start workers, or to compile, says little
        is_long = monotonic() - self.began_s > (self.max_epoch_s or MAX_EPOCH_S)
        if self.batches and self.batches <= MAX_STEPS:
            cut = is_long and self.max_epoch_s and MIN_STEPS <= len(self.steps) < self.batches / 2
            return bool(cut) or len(self.steps) == self.batches
        return len(self.steps) >= (MIN_STEPS if is_long else MAX_STEPS)

    def whole_steps(self) -> int | None:
        """Return how many steps the DataLoader's epoch would have had, if the run's first epoch ends before it does."""
        if self.loaders_begun != 1 or not self.batches or not 0 < self.batches_taken < self.batches:
            return None
        return math.ceil(self.batches * len(self.steps) / self.batches_taken)

    def wait(self, finished: bool) -> None:
        """Stop at the end of an epoch, hand over what was noted, and do what the judge asks for until it says go on."""
        self.report(finished)
        self.obey()

    def obey(self) -> None:
        """Do what the judge asks for; return when the script should go on: to train, or to take a recorded step."""
        batches = self.hooks.batches
        while not isinstance(message := self.judge.receive(), Proceed):
            if isinstance(message, DrawItems):
                self.judge.send(draw_items(self.loaded, message, self.events))
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

    def begins_to_retake(self, message: Recompute) -> bool:
        """Let the script's own loop take a recorded step; return False if that cannot be."""
        if self.model is None or not self.last_stepped:
            self.judge.send(Recomputation(error="this script's own step was not seen whole"))
            return False
        attempts = recompute([Path(sample) for sample in message.samples], self.state())
        about = self.hooks, self.state, self.number_of, self.batch_use, self.last_stepped
        self.retaking = Retaking(attempts, *about)
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
        if self.stepped and os.getpid() == self._pid:
            self.end_step()
        if self.steps and os.getpid() == self._pid:
            self.is_over = False
            self.report(finished=True, cut_short=True)

    def report(self, finished: bool, cut_short: bool = False) -> None:
        """Hand over what was noted of an epoch."""
        if torch.cuda.is_available():
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
                from_memory=self.hooks.batches.replayed,
                copy_trace=copies,
                recording_s=self.recorder.seconds,
                cut_short=cut_short,
                whole_steps=self.whole_steps(),
            )
        )

    def write_events(self) -> None:
        """Write the model and each step of the epoch. Only now are figures fetched from the device."""
        if not self.optimizers or self.model is None or self.root is None:
            return
        self.events.write(
            TrainedModel,
            parameters=[tuple(parameter.shape) for parameter in self.parameters],
            ranks=distributed.get_world_size() if distributed.is_initialized() else 1,
            adaptive=self.adaptive,
            is_flat=is_flat(self.root),
        )
        for other in self.others.epoch():
            self.events.write(OtherOptimizer, **other)
        for step in [*self.steps, self.step]:
            self.writer.write(step, self.spots)


def items_of(inputs: tuple[Any, ...], options: dict[str, Any]) -> int:
    """Return the number of items that a model is called with: the length of its first tensor."""
    tensors = (each for each in tree_leaves((inputs, options)) if isinstance(each, torch.Tensor) and each.ndim)
    return len(next(tensors, ()))


def innermost(module: nn.Module) -> nn.Module:
    """Return the module inside of wrappers, frameworks and transforms of the input, which has all of the parameters."""
    children = [child for child in module.children() if not type(child).__module__.startswith("torchvision.transforms")]
    if len(children) != 1 or is_compiled(module) or isinstance(module, torch.jit.ScriptModule):
        return module
    has_all = sum(1 for _ in children[0].parameters()) == sum(1 for _ in module.parameters())
    return innermost(children[0]) if has_all else module
