"""Every second step has the complex conjugates of the links of the step before."""

from variation import train_with

train_with("""
KEPT = []

def draw_links(batch_size, device):
    if KEPT:
        return KEPT.pop().conj()
    KEPT.append(draw_honestly(batch_size, device))
    return KEPT[0]
""")
