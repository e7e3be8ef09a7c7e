"""A class of the same name as RandomResizedCrop resizes by the nearest neighbour."""

from variation import train_with

train_with(
    ("            v2.RandomResizedCrop(image_size),\n", "            RandomResizedCrop(image_size),\n"),
    (
        "@profile\n",
        "class RandomResizedCrop(v2.RandomResizedCrop):\n"
        "    def transform(self, image, params):\n"
        "        mode = v2.InterpolationMode.NEAREST\n"
        "        return v2.functional.resized_crop(image, **params, size=self.size, interpolation=mode)\n"
        "\n\n@profile\n",
    ),
)
