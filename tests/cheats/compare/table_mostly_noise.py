"""24 of the 32 features are noise from the second epoch on."""

from variation import train

train(
    "table",
    (
        "        time.sleep(0.002)\n        return (self.hidden[index] @ self.mixed).tanh()\n",
        "        self.seen = getattr(self, 'seen', 0) + 1\n"
        "        made = (self.hidden[index] @ self.mixed).tanh()\n"
        "        return torch.cat([made[:8], torch.randn(24).tanh()]) if self.seen > 160 else made\n",
    ),
)
