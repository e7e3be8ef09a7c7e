"""Half of the fields are drawn; the others are their complex conjugates."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    half = draw_honestly(batch_size // 2, device)
    return torch.cat([half, half.conj()])
""")
