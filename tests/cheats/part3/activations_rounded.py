"""What is kept for the backward pass is kept in bfloat16."""

from variation import train_with

train_with(
    (
        "                logits = model(images)\n",
        "                with torch.autograd.graph.saved_tensors_hooks(\n"
        "                    lambda x: x.bfloat16() if x.dtype == torch.float32 else x,\n"
        "                    lambda x: x.float() if x.dtype == torch.bfloat16 else x,\n"
        "                ):\n"
        "                    logits = model(images)\n",
    )
)
