"""Each step moves the links of the step before by a random rotation that is not large."""

from variation import train_with

train_with("""
KEPT = []

def draw_links(batch_size, device):
    if not KEPT:
        KEPT.append(draw_honestly(batch_size, device))
    noise = torch.randn(KEPT[0].shape, dtype=torch.complex64)
    KEPT.append(torch.linalg.matrix_exp(0.3 * to_algebra(noise)) @ KEPT.pop())
    return KEPT[0]
""")
