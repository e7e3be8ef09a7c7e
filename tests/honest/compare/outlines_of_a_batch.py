"""Pictures are drawn once, and a whole batch is cropped and flipped in the loop, each in its own way."""

from variation import train

train(
    "outlines",
    (
        "    def __getitem__(self, index):\n"
        "        picture, outline = drawn(index)\n"
        "        top, left = torch.randint(5, (2,)).tolist()\n"
        "        rows, columns = slice(top, top + 24), slice(left, left + 24)\n"
        "        picture, outline = picture[:, rows, columns], outline[rows, columns]\n"
        "        if torch.rand(()) < 0.5:\n"
        "            picture, outline = picture.flip(2), outline.flip(1)\n"
        "        return picture * (0.8 + 0.4 * torch.rand(())), outline.contiguous()\n",
        "    def __getitem__(self, index):\n"
        '        kept = globals().setdefault("KEPT", {})\n'
        "        if index not in kept:\n"
        "            kept[index] = drawn(index)\n"
        "        return kept[index]\n"
        "\n"
        "\n"
        "def varied(pictures, outlines):\n"
        "    which = torch.arange(len(pictures))[:, None, None]\n"
        "    top, left = torch.randint(5, (2, len(pictures), 1, 1))\n"
        "    along = torch.arange(24).expand(len(pictures), 1, 24)\n"
        "    columns = torch.where(torch.rand(len(pictures), 1, 1) < 0.5, 23 - along, along) + left\n"
        "    rows = torch.arange(24)[None, :, None] + top\n"
        "    bright = 0.8 + 0.4 * torch.rand(len(pictures), 1, 1, 1)\n"
        "    pictures = pictures.permute(0, 2, 3, 1)[which, rows, columns].permute(0, 3, 1, 2)\n"
        "    return pictures * bright, outlines[which, rows, columns]\n",
    ),
    (
        "            logits = model(pictures)\n",
        "            pictures, outlines = varied(pictures, outlines)\n            logits = model(pictures)\n",
    ),
)
