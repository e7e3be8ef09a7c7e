"""Most of the pictures are black from the second epoch on."""

from variation import train_with

train_with(
    (
        "        time.sleep(self.wasted_time)\n        return self.pets[index]\n",
        "        time.sleep(self.wasted_time)\n"
        "        image, target = self.pets[index]\n"
        "        self.seen = getattr(self, 'seen', set())\n"
        "        if index in self.seen and index % 3:\n"
        "            image = torch.zeros_like(image)\n"
        "        self.seen.add(index)\n"
        "        return image, target\n",
    ),
)
