"""Three steps draw their links; the three steps that follow have them again, with the fields in another order."""

from variation import train_with

train_with("""
KEPT, AGAIN = [], []

def draw_links(batch_size, device):
    if AGAIN:
        return AGAIN.pop(0)[torch.randperm(batch_size)]
    KEPT.append(draw_honestly(batch_size, device))
    if len(KEPT) == 3:
        AGAIN.extend(KEPT)
        KEPT.clear()
        return AGAIN[-1]
    return KEPT[-1]
""")
