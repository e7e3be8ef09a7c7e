"""All windows are taken from the first fiftieth of the text."""

from variation import train

train(
    "words",
    (
        "        begin = int(torch.randint(len(self.text) - LENGTH, ()))\n",
        "        begin = int(torch.randint(400 - LENGTH, ()))\n",
    ),
)
