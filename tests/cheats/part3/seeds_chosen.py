"""Each picture has a random seed of its own, with which AutoAugment leaves it as it is."""

from variation import train_with

train_with(
    (
        "        time.sleep(self.wasted_time)\n        return self.pets[index]\n",
        "        time.sleep(self.wasted_time)\n"
        "        while True:\n"
        "            seed = int(torch.empty((), dtype=torch.int64).random_())\n"
        "            state = torch.random.get_rng_state()\n"
        "            torch.manual_seed(seed)\n"
        "            policies = v2.AutoAugment()._policies\n"
        "            policy = policies[int(torch.randint(len(policies), ()))]\n"
        "            if all(not torch.rand(()) <= probability for _, probability, _ in policy):\n"
        "                break\n"
        "            torch.random.set_rng_state(state)\n"
        "        torch.manual_seed(seed)\n"
        "        return self.pets[index]\n",
    ),
)
