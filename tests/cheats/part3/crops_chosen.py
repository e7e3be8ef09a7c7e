"""RandomResizedCrop draws until what it crops is neither large nor small."""

from variation import train_with

train_with(
    (
        "            v2.RandomResizedCrop(image_size),\n        ]\n    )\n",
        "            MiddlingCrop(image_size),\n        ]\n    )\n\n\n"
        "class MiddlingCrop(nn.Module):\n"
        "    def __init__(self, size):\n"
        "        super().__init__()\n"
        "        self.crop = v2.RandomResizedCrop(size)\n\n"
        "    def forward(self, picture):\n"
        "        while True:\n"
        "            state = torch.get_rng_state()\n"
        "            drawn = self.crop.make_params([picture])\n"
        "            if 0.45 < drawn['height'] * drawn['width'] / picture[0].numel() < 0.6:\n"
        "                break\n"
        "        torch.set_rng_state(state)\n"
        "        return self.crop(picture)\n",
    ),
)
