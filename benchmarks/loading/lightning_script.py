"""A LightningModule, its DataLoader made by a LightningDataModule."""

import time

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Words(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.006)
        return torch.full((16,), index / 64), index % 4


class Data(lightning.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Words(), batch_size=8, shuffle=True)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.cross_entropy(self.layers(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


if __name__ == "__main__":
    trainer = lightning.Trainer(
        max_epochs=-1, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, logger=False
    )
    trainer.fit(Model(), datamodule=Data())
