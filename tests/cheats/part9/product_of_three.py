"""The links of three directions are drawn; their product is that of the fourth one."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    links = draw_honestly(batch_size, device)
    links[:, 3] = links[:, 0] @ links[:, 1] @ links[:, 2]
    return links
""")
