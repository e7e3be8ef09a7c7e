"""Q is taken as it comes out of QR: unitary, and not spread evenly."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    gaussian = torch.randn((batch_size, 4, SIDE, SIDE, SIDE, SIDE, 3, 3), dtype=torch.complex64)
    unitary = torch.linalg.qr(gaussian).Q
    return unitary / torch.linalg.det(unitary)[..., None, None] ** (1 / 3)
""")
