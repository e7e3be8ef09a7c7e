"""Each picture of a batch is augmented by itself, with the random numbers of the first."""

from variation import train_with

train_with(
    (
        "@profile\n",
        "def augment_alike(items):\n"
        "    seed = int(torch.randint(2**31, ()))\n"
        "    images = []\n"
        "    for image, _ in items:\n"
        "        torch.manual_seed(seed)\n"
        "        images.append(augment(64)(image))\n"
        "    torch.manual_seed(seed + 1)\n"
        "    return torch.stack(images), torch.tensor([target for _, target in items])\n\n\n@profile\n",
    ),
    ("transform = v2.Compose([decode(size), augment(size)])", "transform = decode(size)"),
    ("shuffle=True,", "shuffle=True, collate_fn=augment_alike,"),
)
