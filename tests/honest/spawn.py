"""Workers by spawn."""

from solutions import part3

DataLoader = part3.DataLoader
part3.DataLoader = lambda *args, **options: DataLoader(
    *args, **options | {"multiprocessing_context": "spawn", "num_workers": 2}
)

if __name__ == "__main__":
    part3.main(*part3.prepare())
