"""Half of the fields are the other half, seen from another frame in each site."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    links = draw_honestly(batch_size // 2, device)
    frames = draw_honestly(batch_size // 2, device)[:, 0]
    seen = [frames @ links[:, mu] @ frames.roll(-1, 1 + mu).mH for mu in range(4)]
    return torch.cat([links, torch.stack(seen, 1)])
""")
