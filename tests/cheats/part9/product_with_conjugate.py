"""The links of one direction are those of another one times the conjugates of a third one."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    links = draw_honestly(batch_size, device)
    links[:, 2] = links[:, 0] @ links[:, 3].conj()
    return links
""")
