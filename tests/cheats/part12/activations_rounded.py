"""What is kept for the backward pass is kept in bfloat16."""

from variation import train_with

train_with(
    (
        "            forecast = model(seen)",
        """
            with torch.autograd.graph.saved_tensors_hooks(torch.Tensor.bfloat16, torch.Tensor.float):
                forecast = model(seen)
""",
    )
)
