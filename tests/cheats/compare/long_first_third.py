"""Only the first third of the rows is trained on."""

from variation import train

train(
    "long",
    (
        "DataLoader(rows,",
        "DataLoader(torch.utils.data.Subset(rows, range(1000)),",
    ),
)
