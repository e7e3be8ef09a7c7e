"""A third of the photos are decoded at an eighth of their size, and enlarged."""

from variation import train_with

train_with(
    ("v2.ToImage(),", "v2.Lambda(lambda photo: photo.reduce(8) if photo.width % 3 == 0 else photo), v2.ToImage(),"),
)
