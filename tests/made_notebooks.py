"""Notebooks that tests write: a list of sources, or of cells, as an `.ipynb`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def cell(source: str, ran_as: int | None = None, **more: Any) -> dict[str, Any]:
    """A code cell, as JupyterLab writes it."""
    found = {"cell_type": "code", "execution_count": ran_as, "metadata": {}, "outputs": []}
    return {**found, "source": source.splitlines(keepends=True), **more}


def text(source: str) -> dict[str, Any]:
    """A cell of Markdown."""
    return {"cell_type": "markdown", "metadata": {}, "source": [source]}


def write(path: Path, cells: Sequence[str | dict[str, Any]], language: str = "python") -> Path:
    """Write a notebook, whose cells of plain text were run one after the other from In [11] on."""
    made = [cell(each, 11 + at) if isinstance(each, str) else each for at, each in enumerate(cells)]
    about = {"kernelspec": {"display_name": language, "language": language, "name": language}}
    found = {"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path


def training(path: Path, context: str = "", sleep_s: float = 0.004, steps: int = 40, lr: float = 0.01) -> Path:
    """Write a notebook that trains: the dataset, the loader and the loop are in cells of their own."""
    workers = f", num_workers=2, multiprocessing_context={context!r}" if context else ""
    epochs = -(-steps // 8)
    return write(
        path,
        [
            text("# A training"),
            "!pip install nothing\n%matplotlib inline\nimport time\nimport torch\nfrom torch import nn",
            "from torch.utils.data import DataLoader, Dataset\ntorch.manual_seed(0)\nSIZE = 32",
            "names = {}\nfor number in range(10):\n    names[number] = number % 3",
            "class Numbers(Dataset):\n"
            "    def __len__(self):\n"
            "        return 64\n"
            "\n"
            "    def __getitem__(self, index):\n"
            f"        time.sleep({sleep_s})\n"
            "        return torch.full((SIZE,), float(index)), names[index % 10]",
            f"loader = DataLoader(Numbers(), batch_size=8, shuffle=True{workers})",
            "%%time\n"
            "model = nn.Linear(SIZE, 3)\n"
            f"optimizer = torch.optim.SGD(model.parameters(), lr={lr})\n"
            f"for epoch in range({epochs}):\n"
            "    for x, y in loader:\n"
            "        loss = nn.functional.cross_entropy(model(x), y)\n"
            "        optimizer.zero_grad()\n"
            "        loss.backward()\n"
            "        optimizer.step()\n"
            "display(loss)",
        ],
    )
