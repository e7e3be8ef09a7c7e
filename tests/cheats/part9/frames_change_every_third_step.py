"""Every third step has the fields of the step before, seen from another frame in each site."""

from variation import train_with

train_with("""
DRAWN = []

def draw_links(batch_size, device):
    DRAWN.append(draw_honestly(batch_size, device))
    if len(DRAWN) % 3:
        return DRAWN[-1]
    links, frames = DRAWN[-2], DRAWN[-1][:, 0]
    return torch.stack([frames @ links[:, mu] @ frames.roll(-1, 1 + mu).mH for mu in range(4)], 1)
""")
