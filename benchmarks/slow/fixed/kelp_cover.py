"""Estimates how much of a tile of the sea is covered by kelp, with Lightning."""

import logging
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def tiles(count, seed):
    """Tiles of four bands, and the share of each that is kelp."""
    generator = torch.Generator().manual_seed(seed)
    cover = torch.rand(count, generator=generator)
    kelp = torch.rand(count, 1, 24, 24, generator=generator) < cover[:, None, None, None]
    spectrum = torch.tensor([0.1, 0.3, 0.1, 0.7])[:, None, None]
    return TensorDataset(kelp * spectrum + 0.1 * torch.randn(count, 4, 24, 24, generator=generator), cover)


class KelpCover(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(4, 24, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, 2, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(48 * 36, 1),
        )

    def error(self, batch):
        bands, cover = batch
        return nn.functional.mse_loss(self.net(bands).squeeze(1), cover)

    def training_step(self, batch, _):
        return self.error(batch)

    def validation_step(self, batch, _):
        self.log("error", self.error(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    torch.manual_seed(0)
    trainer = lightning.Trainer(
        max_epochs=-1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        val_check_interval=1.0,
    )
    train = DataLoader(tiles(9600, seed=1), batch_size=48, shuffle=True)
    valid = DataLoader(tiles(2400, seed=2), batch_size=48)
    trainer.fit(KelpCover(), train, valid)


if __name__ == "__main__":
    main()
