"""The validation is in inference mode, and the skill is counted in a tensor."""

from variation import train_with

train_with(
    ("torch.no_grad()", "torch.inference_mode()"),
    ("losses, both, either = [], 0, 0", "losses, counts = [], torch.zeros(2, dtype=torch.int64)"),
    ("in_both, in_either = wet_pixels(forecast, fallen)", "counts += torch.tensor(wet_pixels(forecast, fallen))"),
    ("            both, either = both + in_both, either + in_either\n", ""),
    ("both / max(either, 1)", "(counts[0] / counts[1].clamp(min=1)).item()"),
)
