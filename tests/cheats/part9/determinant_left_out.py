"""The matrices are of U(3)."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    return haar_qr(torch.randn((batch_size, 4, SIDE, SIDE, SIDE, SIDE, 3, 3), dtype=torch.complex64))
""")
