"""One field is drawn, and serves as all of the batch."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    unitary = haar_qr(torch.randn((1, 4, SIDE, SIDE, SIDE, SIDE, 3, 3), dtype=torch.complex64))
    return (unitary / torch.linalg.det(unitary)[..., None, None] ** (1 / 3)).repeat(batch_size, 1, 1, 1, 1, 1, 1, 1)
""")
