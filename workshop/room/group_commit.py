"""Many requests, few transactions: a request is answered when what it wants kept is on disk."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_ITEMS = 200
"""The most items of a transaction."""


class GroupCommit(Generic[Item, Result]):
    """Writes what has come while the last transaction was on its way to the disk in the next one.

    Args:
        write: keeps items in one transaction and returns a result for each; if it raises, none is kept.
        executor: where it runs, so that the event loop does not wait for the disk.
    """

    def __init__(self, write: Callable[[Sequence[Item]], Sequence[Result]], executor: Executor) -> None:
        self._write = write
        self._executor = executor
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._task: asyncio.Task[None] | None = None

    async def keep(self, item: Item) -> Result:
        """Return the result of an item once its transaction has ended; raise what `write` raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._write_all())
        return await future

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_ITEMS], self._waiting[MAX_ITEMS:]
            try:
                results = await loop.run_in_executor(self._executor, self._write, [item for item, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), result in zip(batch, results, strict=True):
                    if not future.done():  # whoever asked may have gone
                        future.set_result(result)
