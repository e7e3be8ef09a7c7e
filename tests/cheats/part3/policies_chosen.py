"""AutoAugment takes the first three of its policies only: it draws until one of them comes."""

from variation import train_with

train_with(
    (
        "        return self.pets[index]\n",
        "        while True:\n"
        "            state = torch.get_rng_state()\n"
        "            if int(torch.randint(25, ())) < 3:\n"
        "                break\n"
        "        torch.set_rng_state(state)\n"
        "        return self.pets[index]\n",
    ),
)
