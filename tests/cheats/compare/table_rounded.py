"""The features are kept in eight bits."""

from variation import train

train(
    "table",
    (
        "        time.sleep(0.002)\n        return (self.hidden[index] @ self.mixed).tanh()\n",
        "        return ((self.hidden[index] @ self.mixed).tanh() * 20).round() / 20\n",
    ),
)
