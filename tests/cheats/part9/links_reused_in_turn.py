"""Four draws serve in turn, each time with the fields in another order."""

from variation import train_with

train_with("""
KEPT = []

def draw_links(batch_size, device):
    if len(KEPT) < 4:
        unitary = haar_qr(torch.randn((batch_size, 4, SIDE, SIDE, SIDE, SIDE, 3, 3), dtype=torch.complex64))
        KEPT.append(unitary / torch.linalg.det(unitary)[..., None, None] ** (1 / 3))
        return KEPT[-1]
    KEPT.append(KEPT.pop(0)[torch.randperm(batch_size)])
    return KEPT[-1]
""")
