"""Photos are decoded at an eighth of their size, as JPEG drafts are, and enlarged."""

from variation import train_with

train_with(
    ("v2.ToImage(),", "v2.Lambda(lambda photo: photo.reduce(8)), v2.ToImage(),"),
)
