"""`workshop record nsys`: NVIDIA's Nsight Systems around a command, with the phases of each step as NVTX ranges."""

import functools
import getpass
import os
from dataclasses import dataclass
from typing import Any

from workshop.harness import injection
from workshop.recording.names import place
from workshop.recording.torch_run import as_command

VARIABLE = "WORKSHOP_NVTX"
SUFFIX = ".nsys-rep"
ME = "me"
WHERE = "https://developer.nvidia.com/nsight-systems"


@dataclass(frozen=True)
class Options:
    """What nsys is to see."""

    trace: str = "cuda,nvtx,osrt,cudnn,cublas"
    """Libraries whose calls are recorded."""
    gpu_metrics: str = "all"
    """Devices whose counters are sampled, which takes rights that few have; "" for none."""
    run_as: str = ""
    """Who runs the command where root runs nsys; `ME` for whoever called sudo."""


def command_line(command: list[str], output: str, options: Options) -> list[str]:
    """What one would type: `nsys profile` with its flags, and the command.

    Raises:
        WorkshopError: there is no such command.
        OSError: the folder for the report cannot be made.
    """
    inner = as_command(command)
    flags = [
        f"--trace={options.trace}",
        "--cuda-memory-usage=true",
        f"--output={place(output + SUFFIX, '').with_suffix('')}",
    ]
    if options.gpu_metrics:
        flags.append(f"--gpu-metrics-devices={options.gpu_metrics}")
    if options.run_as:
        flags.append(f"--run-as={_me() if options.run_as == ME else options.run_as}")
    variables = [f"{name}={value}" for name, value in (injection.environment() | {VARIABLE: "1"}).items()]
    return ["nsys", "profile", *flags, "env", *variables, *inner]


def start() -> None:
    """Mark the phases of the training in this process. Python calls this before the script's first line."""
    from workshop.harness.probe import after_import

    after_import("torch", lambda torch: Marks(torch.cuda.nvtx).install())


class Marks:
    """One range around each phase, on the thread that runs it."""

    def __init__(self, nvtx: Any) -> None:
        self.nvtx = nvtx
        self.depth = 0

    def install(self) -> None:
        """Wrap the loader, the models, backward, and the optimizers."""
        import torch
        from torch.nn.modules import module
        from torch.optim import optimizer
        from torch.utils.data import dataloader

        for kind in (dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter):
            self.mark(kind, "__next__", "data wait")
        self.mark(torch.autograd, "backward", "backward")
        self.mark(optimizer.Optimizer, "zero_grad", "optimizer")
        optimizer.register_optimizer_step_pre_hook(lambda *_: self.push("optimizer"))
        optimizer.register_optimizer_step_post_hook(lambda *_: self.pop())
        module.register_module_forward_pre_hook(lambda *_: self.enter())
        module.register_module_forward_hook(lambda *_: self.leave(), always_call=True)

    def mark(self, owner: Any, name: str, phase: str) -> None:
        """Put a range around the calls of a function."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def marked(*args: Any, **options: Any) -> Any:
            self.push(phase)
            try:
                return original(*args, **options)
            finally:
                self.pop()

        setattr(owner, name, marked)

    def push(self, phase: str) -> None:
        """Begin a range."""
        self.nvtx.range_push(phase)

    def pop(self) -> None:
        """End the last one."""
        self.nvtx.range_pop()

    def enter(self) -> None:
        """A module is called; the outermost one begins the forward phase."""
        self.depth += 1
        if self.depth == 1:
            self.push("forward")

    def leave(self) -> None:
        """It has been called."""
        self.depth -= 1
        if self.depth == 0:
            self.pop()


def _me() -> str:
    return os.environ.get("SUDO_USER") or getpass.getuser()
