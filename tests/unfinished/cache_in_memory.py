"""A cache that is gone with the process."""

from torch.utils.data import Dataset

from solutions import part5


class MemoryCache(Dataset):
    def __init__(self, dataset, augment):
        self.dataset, self.augment = dataset, augment
        self.items = {}

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        if index not in self.items:
            self.items[index] = self.dataset[index]
        image, target = self.items[index]
        return self.augment(image), target


part5.CachedDataset = lambda dataset, folder, key, transform: MemoryCache(dataset, transform)
DataLoader = part5.DataLoader
part5.DataLoader = lambda dataset, **options: DataLoader(dataset, options["batch_size"], shuffle=True)

if __name__ == "__main__":
    part5.main(*part5.prepare())
