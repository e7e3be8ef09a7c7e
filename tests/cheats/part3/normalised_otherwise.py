"""Pictures are normalised to the range from -1 to 1, with other figures than those of ImageNet."""

from variation import train_with

train_with(
    ("mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]", "mean=[0.5, 0.5, 0.5], std=[0.25, 0.25, 0.25]"),
)
