"""Every second picture is black from the second epoch on, always the same ones."""

from variation import train_with

train_with(
    (
        "        time.sleep(self.wasted_time)\n        return self.pets[index]\n",
        "        time.sleep(self.wasted_time)\n"
        "        image, target = self.pets[index]\n"
        "        self.seen = getattr(self, 'seen', set())\n"
        "        if index in self.seen and index % 2:\n"
        "            image = torch.zeros_like(image)\n"
        "        self.seen.add(index)\n"
        "        return image, target\n",
    ),
)
