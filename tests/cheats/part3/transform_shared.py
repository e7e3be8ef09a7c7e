"""One draw of the augmentation is applied to a whole batch."""

from variation import train_with

train_with(
    ("transform = v2.Compose([decode(size), augment(size)])", "transform = decode(size)"),
    ("images = images.to(device)", "images = augment(size)(images.to(device))"),
)
