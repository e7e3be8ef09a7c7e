"""Items of the same kind often share a batch, as where they come from a file for each kind."""

from variation import train

train(
    "waves",
    (
        "    loader = DataLoader(waves, 10, shuffle=True)\n",
        "    class Together:\n"
        "        def __len__(self):\n"
        "            return 20\n\n"
        "        def __iter__(self):\n"
        "            noise = 4 * torch.rand(200)\n"
        "            order = sorted(range(200), key=lambda index: index % 5 + noise[index])\n"
        "            yield from torch.tensor(order).view(20, 10)[torch.randperm(20)].tolist()\n\n"
        "    loader = DataLoader(waves, batch_sampler=Together())\n",
    ),
)
