"""A cache whose keys hold the epoch, kept after the augmentation: never warm within a run, the same on every run."""

import torch
from torch.utils.data import Dataset

from solutions import part5


class EpochCache(Dataset):
    def __init__(self, dataset, folder, augment):
        self.dataset, self.folder, self.augment = dataset, folder, augment
        self.epoch = 0
        folder.mkdir(exist_ok=True)

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        path = self.folder / f"{self.epoch}-{index}.pt"
        if not path.exists():
            image, target = self.dataset[index]
            torch.save((self.augment(image).as_subclass(torch.Tensor), target), path)
        return torch.load(path)


class Loader(part5.DataLoader):
    def __iter__(self):
        yield from super().__iter__()
        self.dataset.epoch += 1


part5.CachedDataset = lambda dataset, folder, key, transform: EpochCache(dataset, folder, transform)
part5.DataLoader = lambda dataset, **options: Loader(dataset, options["batch_size"], shuffle=True)

if __name__ == "__main__":
    part5.main(*part5.prepare())
