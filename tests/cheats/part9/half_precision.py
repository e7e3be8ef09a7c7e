"""The links are rounded to float16."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    links = draw_honestly(batch_size, device)
    return torch.view_as_complex(torch.view_as_real(links.contiguous()).half().float())
""")
