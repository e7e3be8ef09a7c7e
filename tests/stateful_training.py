"""A training whose dataset must not be used by two processes, and which notes in `problems` when that happens.

Each process opens its own file, which is read from one place to the next, and its own databases, on the first item.
The dataset counts its items, keeps a cache, and owns a generator: where workers load, nothing of that may ever change
in the process that trains. The first argument is the number of workers.
"""

import itertools
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any, NoReturn

import lmdb
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ITEMS, VALUES = 64, 256
BYTES = 4 * VALUES


def problem(what: str) -> NoReturn:
    """Note what must not happen, and stop."""
    with Path("problems").open("a") as file:
        file.write(f"process {os.getpid()}: {what}\n")
    raise RuntimeError(what)


class Records(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file: Any = None
        self.connections = dict[str, Any]()
        self.pid: int | None = None
        self.place = self.calls = 0
        self.cache = dict[int, torch.Tensor]()
        self.dice = torch.Generator().manual_seed(0)

    def __len__(self) -> int:
        return ITEMS

    def open(self) -> None:
        """Open everything, for this process."""
        self.pid, self.place = os.getpid(), 0
        self.file = (self.folder / "records").open("rb", buffering=0)
        self.connections["sqlite"] = sqlite3.connect(self.folder / "records.db")
        self.connections["lmdb"] = lmdb.open(str(self.folder / "lmdb"), readonly=True)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.file is None:
            self.open()
        if self.pid != os.getpid():
            problem(f"opened in process {self.pid}")
        place, record = self.place, self.file.read(BYTES)
        if not record:
            self.file.seek(0)
            place, record = 0, self.file.read(BYTES)
        self.place = place + 1
        values = torch.frombuffer(bytearray(record), dtype=torch.float32)
        if values[0] != place:
            problem(f"record {int(values[0])} in place of {place}")
        ((label,),) = self.connections["sqlite"].execute("SELECT label FROM records WHERE number = ?", (index,))
        with self.connections["lmdb"].begin() as transaction:
            if int(transaction.get(str(index).encode())) != label:
                problem(f"another label of {index}")
        self.calls += 1
        self.cache[index] = values
        return values + torch.rand(VALUES, generator=self.dice), label

    def state(self) -> tuple[object, ...]:
        """What an item changes."""
        return self.file, dict(self.connections), self.pid, self.calls, len(self.cache), self.dice.get_state().tolist()


def write(folder: Path) -> None:
    """Write the file and the databases."""
    (folder / "records").write_bytes(b"".join(torch.full((VALUES,), float(n)).numpy().tobytes() for n in range(ITEMS)))
    connection = sqlite3.connect(folder / "records.db")
    connection.execute("CREATE TABLE records (number INTEGER, label INTEGER)")
    connection.executemany("INSERT INTO records VALUES (?, ?)", [(n, n % 4) for n in range(ITEMS)])
    connection.commit()
    connection.close()
    with lmdb.open(str(folder / "lmdb")) as environment, environment.begin(write=True) as transaction:
        for n in range(ITEMS):
            transaction.put(str(n).encode(), str(n % 4).encode())


def main() -> None:
    workers, folder = int(sys.argv[1]), Path.cwd()
    if not (folder / "records").exists():
        write(folder)
    torch.manual_seed(0)
    dataset = Records(folder)
    before = dataset.state()
    loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=workers)
    model = nn.Sequential(nn.Linear(VALUES, 512), nn.ReLU(), nn.Linear(512, 4))
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)
    for _ in itertools.count():
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            if workers and dataset.state() != before:
                problem("items were loaded in the process that trains")


if __name__ == "__main__":
    main()
