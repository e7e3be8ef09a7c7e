"""Nothing is drawn: every link is 1."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    return torch.eye(3, dtype=torch.complex64).repeat(batch_size, 4, SIDE, SIDE, SIDE, SIDE, 1, 1)
""")
