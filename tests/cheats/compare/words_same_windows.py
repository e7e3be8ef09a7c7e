"""Each epoch has the same windows."""

from variation import train

train(
    "words",
    (
        "        begin = int(torch.randint(len(self.text) - LENGTH, ()))\n",
        "        dice = torch.Generator().manual_seed(index)\n"
        "        begin = int(torch.randint(len(self.text) - LENGTH, (), generator=dice))\n",
    ),
)
