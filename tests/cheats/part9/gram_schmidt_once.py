"""One pass of Gram-Schmidt over the columns, which is quick, and not unitary where they are close to each other."""

from variation import train_with

train_with("""
def draw_links(batch_size, device):
    gaussian = torch.randn((batch_size, 4, SIDE, SIDE, SIDE, SIDE, 3, 3), dtype=torch.complex64)
    columns = []
    for drawn in gaussian.unbind(-1):
        column = drawn
        for other in columns:
            column = column - (other.conj() * drawn).sum(-1, keepdim=True) * other
        columns.append(column / torch.linalg.vector_norm(column, dim=-1, keepdim=True))
    unitary = torch.stack(columns, -1)
    return unitary / torch.linalg.det(unitary)[..., None, None] ** (1 / 3)
""")
