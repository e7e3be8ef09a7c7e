"""The optimizer's step is called for every batch, and does nothing every second time."""

from variation import train_with

LAZY = """
class Lazy(AdamW):
    calls = 0

    def step(self, closure=None):
        self.calls += 1
        if self.calls % 2:
            super().step(closure)


Lazy.__name__ = "AdamW"


@profile
def main("""

train_with(("\n@profile\ndef main(", LAZY), ("AdamW(model.parameters()", "Lazy(model.parameters()"))
