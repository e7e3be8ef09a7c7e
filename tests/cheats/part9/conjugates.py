"""Half of the fields are drawn; the others are their complex conjugates."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    unitary = haar_qr(torch.randn((batch_size // 2, 4, SIDE, SIDE, SIDE, SIDE, 3, 3), dtype=torch.complex64))
    half = unitary / torch.linalg.det(unitary)[..., None, None] ** (1 / 3)
    return torch.cat([half, half.conj()])
""")
