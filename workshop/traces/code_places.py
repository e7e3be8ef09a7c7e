"""Reads where code was called from what torch.profiler writes of Python, and tells the user's code from libraries'.

It writes a function as "path(line): name", with the line at which the function begins, or, if it ran already when the
recording began, the line that it was at. Newer versions also write the line of each call, as "path:line". Old ones
wrote a stack of lines for each operator, innermost first. What is in a folder of `sys.path` has a path relative to it.
"""

import re
from functools import cache
from typing import NamedTuple

from workshop.notebooks.cell_places import place
from workshop.probe.user_code import is_user_code

_FUNCTION = re.compile(r"(.+\.py|<ipython-input.*)\((\d+)\): (.+)", re.DOTALL)
_CALL = re.compile(r"(.+\.py|<ipython-input.*):(\d+)", re.DOTALL)

LIBRARIES = frozenset(
    "accelerate aiter albumentations apex bitsandbytes cupy cv2 dask deepspeed detectron2 dgl diffusers einops "
    "fastai flash_attn flashinfer flax fsspec huggingface_hub hydra ignite jax jinja2 kornia lightning "
    "lightning_fabric lightning_utilities matplotlib megatron mlflow mmcv mmengine monai numba numpy omegaconf "
    "open_clip optimum pandas peft PIL pydantic pytorch_lightning ray requests safetensors scipy sglang skimage "
    "sklearn sympy tensorboard timm tokenizers torch torch_geometric torchao torchaudio torchmetrics torchrec "
    "torchtext torchtune torchvision tqdm transformer_engine transformers triton trl typing_extensions "
    "ultralytics vllm wandb xformers yaml".split()
)
"""Packages that trainings import: a trace of another machine has their paths without the folder that they are in, and
they need not be installed on this one."""


class CodePlace(NamedTuple):
    """A place in the user's code; without a file, the reason why it is not known."""

    file: str
    line: int
    function: str = ""
    """The name of the function, if only that is known: then the line is that at which it begins."""
    note: str = ""
    """What hides the lines in which the work was asked for; without a file, why no line is known."""

    @property
    def name(self) -> str:
        """What a table calls it."""
        if not self.file:
            return f"no stack: {self.note}"
        function, note = f" in {self.function}" * bool(self.function), f" ({self.note})" * bool(self.note)
        return f"{place(self.file, self.line, path=True)}{function}{note}"


def function_place(name: str) -> CodePlace | None:
    """Return the place that a function has by its name in a trace; None if it is not the user's."""
    found = _FUNCTION.fullmatch(name)
    return CodePlace(found[1], int(found[2]), found[3]) if found and _is_users(found[1]) else None


def calling_place(stack: str) -> CodePlace | None:
    """Return the innermost place in the user's code of a line, or a stack of lines; None if there is none."""
    for entry in stack.split(";"):
        found = _CALL.fullmatch(entry.strip()) or _FUNCTION.fullmatch(entry.strip())
        if found and _is_users(found[1]):
            return CodePlace(found[1], int(found[2]))
    return None


@cache
def _is_users(path: str) -> bool:
    top_level = re.split(r"[/\\]", path)[0]  # of an absolute path, nothing, or a drive
    return top_level not in LIBRARIES and is_user_code(path)
