"""All features are computed at once, and an order is drawn by hand."""

from variation import train

train(
    "table",
    (
        "    loader = DataLoader(rows, 16, shuffle=True)\n",
        "    table = (rows.hidden @ rows.mixed).tanh()\n"
        "\n"
        "    class Batches:\n"
        "        def __iter__(self):\n"
        "            for batch in torch.randperm(160).split(16):\n"
        "                yield table[batch], rows.targets[batch]\n"
        "\n"
        "    loader = Batches()\n",
    ),
)
