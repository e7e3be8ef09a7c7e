"""Coroutines wait for the slow storage side by side."""

import asyncio

from solutions import part3


class Asynchronous(part3.CustomSlowDataset):
    """Reads the items of a batch at the same time."""

    def __getitems__(self, indices):
        return asyncio.run(self.read(indices))

    async def read(self, indices):
        return await asyncio.gather(*map(self.read_one, indices))

    async def read_one(self, index):
        await asyncio.sleep(self.wasted_time)
        return self.pets[index]


part3.CustomSlowDataset = Asynchronous

if __name__ == "__main__":
    part3.main(*part3.prepare())
