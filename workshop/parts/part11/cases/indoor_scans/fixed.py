"""Labels the points of indoor laser scans: neighbourhood statistics in the loader, a shared MLP with pooling on top."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

POINTS, NEIGHBOURS, LABELS = 768, 12, 4


def init_worker(worker_id):
    torch.set_num_threads(1)
    torch.manual_seed(worker_id)


class Rooms(Dataset):
    """Rooms with a floor, walls, a table and clutter, made when they are asked for."""

    def __len__(self):
        return 4000

    def __getitem__(self, index):
        label = torch.randint(LABELS, (POINTS,))
        xyz = torch.rand(POINTS, 3) * torch.tensor([5.0, 4.0, 2.5])
        xyz[label == 0, 2] = 0.02 * torch.randn(int((label == 0).sum()))
        xyz[label == 1, 0] = 5 * torch.randint(2, (int((label == 1).sum()),)).float()
        xyz[label == 2, 2] = 0.75
        distance = torch.cdist(xyz, xyz)
        near = distance.topk(NEIGHBOURS, largest=False).indices
        offsets = xyz[near] - xyz[:, None]
        spread = torch.einsum("nki,nkj->nij", offsets, offsets).flatten(1) / NEIGHBOURS
        height = xyz[:, 2:] - xyz[:, 2].min()
        return torch.cat([xyz, spread, height], 1), label


class PointNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(13, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.whole = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, LABELS))

    def forward(self, x):
        x = self.local(x)
        room = self.whole(x.amax(1, keepdim=True)).expand_as(x)
        return self.head(torch.cat([x, room], 2)).transpose(1, 2)


class Training:
    def __init__(self, batch_size=6, workers=6):
        self.loader = DataLoader(
            Rooms(), batch_size, num_workers=workers, worker_init_fn=init_worker, persistent_workers=True
        )
        self.model = PointNet()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2000, 0.7)

    def step(self, features, label):
        loss = nn.functional.cross_entropy(self.model(features), label)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()

    def run(self, epochs):
        for epoch in range(epochs):
            losses = [self.step(*batch) for batch in self.loader]
            print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}")


if __name__ == "__main__":
    Training().run(epochs=100)
