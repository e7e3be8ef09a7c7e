"""ZeroRedundancyOptimizer: each rank steps its share of the parameters, and sends it to the others."""

from variation import train_with

train_with(
    ("import AdamW\n", "import AdamW\nfrom torch.distributed.optim import ZeroRedundancyOptimizer\n"),
    (
        "AdamW(model.parameters(), lr=config.learning_rate)",
        "ZeroRedundancyOptimizer(model.parameters(), optimizer_class=AdamW, lr=config.learning_rate)",
    ),
)
