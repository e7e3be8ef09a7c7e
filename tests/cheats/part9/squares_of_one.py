"""One matrix is drawn for each site, and a link is the quotient of two: the product around each square is 1."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    site = draw_honestly(-(-batch_size // 4), device).flatten(0, 1)[:batch_size]
    return torch.stack([site @ ahead(site, direction).mH for direction in range(4)], 1)
""")
