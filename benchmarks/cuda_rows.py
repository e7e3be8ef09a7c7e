"""What a row of `cuda.py` is, and where it runs."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Found:
    """What was measured for a claim."""

    says: str
    met: bool | None
    """None if it was not measured."""
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where the rows run."""

    folder: Path
    data: Path
    device: str

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of `configs/gpu_config.py` with fewer pictures; without a GPU, such that a row takes seconds."""
        if self.device.startswith("cuda"):
            return {"batch_size": 128, "image_size": 224, "max_items": 512}
        return {"batch_size": 8, "image_size": 64, "max_items": 24}

    def new_folder(self) -> Path:
        """Make an empty folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def run(self, *command: Any, folder: Path | None = None, fails: bool = False) -> subprocess.CompletedProcess[str]:
        """Run this Python with some arguments, in a folder; it must end well, unless it may fail."""
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=folder or self.new_folder(),
            env=os.environ | {"WORKSHOP_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode and not fails:
            raise RuntimeError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout)[-300:]}")
        return done

    def workshop(self, command: str, *arguments: Any, fails: bool = False) -> Any:
        """Run a command of the workshop that prints JSON, and return that."""
        return json.loads(self.run("-m", "workshop", command, "--json", *arguments, fails=fails).stdout)

    def script(self, name: str, source: str) -> Path:
        """Write a script into a folder of its own."""
        path = self.new_folder() / name
        path.write_text(source)
        return path


Row = Callable[[Place], Found]


@dataclass(frozen=True)
class Claim:
    """What is said of CUDA."""

    text: str
    row: Row
    """Measures it."""
    beside_others: bool = False
    """Whether its times do not matter, so that it can run beside others."""
    half: int = 1
    """The half in which it is measured."""
    limit_s: float = 100.0
    """Seconds, at most, that it may take."""


RESNET = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import resnet50

device = torch.device("{device}")
data = [(torch.randn({batch}, 3, {side}, {side}), torch.randint(0, 37, ({batch},))) for _ in range(8)]
model = resnet50(num_classes=37).to(device)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler(device.type, enabled={amp})
for epoch in range(10_000):
    for images, targets in DataLoader(data, batch_size=None, shuffle=True, pin_memory={pinned}):
        images, targets = images.to(device), targets.to(device)
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.float16, enabled={amp}):
            loss = nn.functional.cross_entropy(model(images), targets)
        scaler.scale(loss).backward()
        {planted}
        scaler.step(optimizer)
        scaler.update()
"""


def resnet(
    place: Place,
    planted: str = "",
    amp: bool = False,
    pin: bool = False,
    name: str = "resnet.py",
    small: bool = False,
) -> Path:
    """Write a script whose time goes into the device; of the `small` one, a step takes about 10 ms on a fast one."""
    on_gpu = place.device.startswith("cuda")
    sizes = {"side": 224, "batch": 8 if small else 64} if on_gpu else {"side": 64, "batch": 4}
    values = {"device": place.device, "planted": planted or "pass", "amp": amp, "pinned": pin}
    return place.script(name, RESNET.format(**sizes, **values))
