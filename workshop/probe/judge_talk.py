"""The talk with the judge at the end of each epoch: the script reports, does what it is asked for, and waits."""

import os
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from workshop.probe.connection import Connection
from workshop.probe.event_file import EventFile
from workshop.probe.held_files import HeldFiles
from workshop.probe.hooks import TrainingHooks
from workshop.probe.internals import profiler_settings
from workshop.probe.item_draws import LoadedBatch, draw_items
from workshop.probe.messages import (
    DrawItems,
    EpochBegan,
    EpochEnded,
    EpochReport,
    Proceed,
    Recomputation,
    Recompute,
    Repeat,
)
from workshop.probe.noted_epoch import NotedEpoch
from workshop.probe.opened_files import replaced_clocks
from workshop.probe.recomputation import recompute
from workshop.probe.repeated_transforms import repeat
from workshop.probe.retaking import Retaking


class JudgeTalk:
    """Speaks for the training in this process, whose events are written before the judge is told to read them."""

    def __init__(
        self, judge: Connection, events: EventFile, hooks: TrainingHooks, epoch: NotedEpoch, files: HeldFiles
    ) -> None:
        self._judge, self._events, self._hooks, self._epoch = judge, events, hooks, epoch
        self._files = files
        self.has_begun = False
        self.retaking: Retaking | None = None  # of a recorded step; None while the script trains
        self._copy_trace: Any = None  # of torch.profiler

    def begin(self) -> None:
        """At the first sign of the training, tell the judge that the start-up is over."""
        if not self.has_begun:
            self.has_begun = True
            self._hooks.clock.restart()
            self._judge.send(EpochBegan())

    def wait(self, finished: bool) -> None:
        """Stop at the end of an epoch, hand over what was noted, and do what the judge asks for until it says go on."""
        self.report(finished)
        self._obey()

    def report(self, finished: bool, cut_short: bool = False) -> None:
        """Hand over what was noted of an epoch."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        clock = self._hooks.clock
        clock.adopt_thread()
        phases = clock.cut()
        self._judge.send(EpochEnded())  # the judge's clock stops here
        copies = _end_copy_trace(self._copy_trace, self._events.folder) if self._copy_trace else None
        self._copy_trace = None
        self._epoch.write()
        steps, recorder = len(self._epoch.steps), self._epoch.recorder
        self._files.end(steps)
        self._judge.send(
            EpochReport(
                finished=finished,
                steps=steps,
                phases=phases,
                sample=recorder.save(),
                sampled_step=recorder.sample_step,
                replaced_clocks=replaced_clocks(),
                from_memory=self._hooks.loading.batches.replayed,
                copy_trace=copies,
                recording_s=recorder.seconds,
                cut_short=cut_short,
                whole_steps=self._epoch.length.whole_steps(steps),
            )
        )

    def _obey(self) -> None:
        """Do what the judge asks for; return when the script should go on: to train, or to take a recorded step."""
        batches, store = self._epoch.batches, self._hooks.loading.batches
        while not isinstance(message := self._judge.receive(), Proceed):
            if isinstance(message, DrawItems):
                forwards = self._epoch.steps[-1].forwards if self._epoch.steps else []
                loaded = LoadedBatch(batches.loader, batches.last, forwards)
                self._judge.send(draw_items(loaded, message, self._events))
            elif isinstance(message, Repeat):
                for path in message.files:
                    self._judge.send(repeat(Path(path)))
            elif self._begins_to_retake(message):
                return
        self._files.begin()
        store.keeping, store.replaying, store.replayed = message.keep_batches, message.from_memory, 0
        self._epoch.begin(message.steps, message.sample_step, message.alike)
        self._copy_trace = _start_copy_trace() if message.trace_copies else None
        self._hooks.clock.restart()

    def _begins_to_retake(self, message: Recompute) -> bool:
        """Let the script's own loop take a recorded step; return False if that cannot be."""
        if not self._epoch.last_stepped:
            self._judge.send(Recomputation(error="this script's own step was not seen whole"))
            return False
        samples = [Path(sample) for sample in message.samples]
        attempts = recompute(samples, self._epoch.training.state(), self._epoch.loaders)
        self.retaking, self._epoch.stepped = Retaking(attempts, self._hooks, self._epoch), set()
        return not self._has_retaken(self.retaking)

    def begin_step(self, retaking: Retaking) -> None:
        """Begin another step while recorded ones are taken; the judge may have what it has asked for with that."""
        retaking.begin_step()
        if self._has_retaken(retaking):
            self._obey()

    def _has_retaken(self, retaking: Retaking) -> bool:
        """Return whether a recorded step has been taken as often as needed; then send what came of it."""
        if not retaking.is_over:
            return False
        self._judge.send(retaking.told)
        self._epoch.retaken += retaking.attempts
        self.retaking = None
        return True


def _start_copy_trace() -> profile:
    """Begin to trace what a CUDA device does, and which calls launched it."""
    trace = profile(activities=[ProfilerActivity.CUDA], experimental_config=profiler_settings())
    trace.start()
    return trace


def _end_copy_trace(trace: profile, folder: str) -> str:
    """End a trace and write it into a folder; return the path of the file, which torch.profiler's traces are like."""
    trace.stop()
    path = os.path.join(folder, f"{os.getpid()}-copies.json")
    trace.export_chrome_trace(path)
    return path
