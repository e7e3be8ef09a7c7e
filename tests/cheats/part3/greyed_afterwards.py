"""Pictures lose their colours after the augmentation."""

from variation import train_with

train_with(("v2.AutoAugment(),", "v2.AutoAugment(), v2.Grayscale(3),"))
