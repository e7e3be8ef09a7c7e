"""Each step multiplies each link of the step before by one of a few matrices."""

from variation import train_with

train_with("""
KEPT = []

def draw_links(batch_size, device):
    if not KEPT:
        KEPT.append(draw_honestly(batch_size, device))
    few = draw_honestly(1, device).flatten(0, -3)
    KEPT.append(few[torch.randint(len(few), KEPT[0].shape[:-2])] @ KEPT.pop())
    return KEPT[0]
""")
