"""Four draws serve in turn, each time with the fields in another order."""

from variation import train_with

train_with("""
KEPT = []

def draw_links(batch_size, device):
    if len(KEPT) < 4:
        KEPT.append(draw_honestly(batch_size, device))
        return KEPT[-1]
    KEPT.append(KEPT.pop(0)[torch.randperm(batch_size)])
    return KEPT[-1]
""")
