"""Two random orders take turns."""

from variation import train_with

train_with(
    ("        shuffle=True,\n", "        sampler=InTurn(len(dataset)),\n"),
    (
        "@profile\n",
        "class InTurn:\n"
        "    def __init__(self, count):\n"
        "        self.orders = [torch.randperm(count).tolist() for _ in range(2)]\n\n"
        "    def __len__(self):\n"
        "        return len(self.orders[0])\n\n"
        "    def __iter__(self):\n"
        "        self.orders.reverse()\n"
        "        return iter(self.orders[0])\n\n\n@profile\n",
    ),
)
