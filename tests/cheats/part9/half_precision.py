"""The links are rounded to float16."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    unitary = haar_qr(torch.randn((batch_size, 4, SIDE, SIDE, SIDE, SIDE, 3, 3), dtype=torch.complex64))
    links = unitary / torch.linalg.det(unitary)[..., None, None] ** (1 / 3)
    return torch.view_as_complex(torch.view_as_real(links.contiguous()).half().float())
""")
