"""A cache keeps the augmented pictures: every epoch sees the same ones."""

from variation import train_with

CACHE = """
class Frozen(Dataset):
    def __init__(self, dataset, folder):
        self.dataset, self.folder = dataset, folder
        folder.mkdir(exist_ok=True)

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        path = self.folder / f"{index}.pt"
        if not path.exists():
            image, target = self.dataset[index]
            torch.save((image.as_subclass(torch.Tensor), target), path)
        return torch.load(path)


@profile
def main("""

train_with(("\n@profile\ndef main(", CACHE), ("        dataset,\n", "        Frozen(dataset, config.cache_dir),\n"))
