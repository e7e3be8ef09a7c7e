"""Every second step has the links of the step before, moved along one direction of the lattice."""

from variation import train_with

train_with("""
KEPT = []

def draw_links(batch_size, device):
    if KEPT:
        return KEPT.pop().roll(1, 3)
    KEPT.append(draw_honestly(batch_size, device))
    return KEPT[0]
""")
