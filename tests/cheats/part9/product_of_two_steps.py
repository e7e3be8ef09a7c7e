"""Every third step has the products of the links of the two steps before."""

from variation import train_with

train_with("""
KEPT = []

def draw_links(batch_size, device):
    if len(KEPT) == 2:
        return KEPT.pop() @ KEPT.pop()
    KEPT.append(draw_honestly(batch_size, device))
    return KEPT[-1]
""")
