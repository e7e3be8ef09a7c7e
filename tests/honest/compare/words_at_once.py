"""The windows of a batch are taken from the text at once."""

from variation import train

train(
    "words",
    (
        "    def __getitem__(self, index):\n"
        "        time.sleep(0.002)\n"
        "        begin = int(torch.randint(len(self.text) - LENGTH, ()))\n"
        "        window = self.text[begin : begin + LENGTH + 1]\n"
        "        return window[:-1], window[1:]\n",
        "    def __getitems__(self, indices):\n"
        "        begin = torch.randint(len(self.text) - LENGTH, (len(indices), 1))\n"
        "        windows = self.text[begin + torch.arange(LENGTH + 1)]\n"
        "        return [(window[:-1], window[1:]) for window in windows]\n",
    ),
)
