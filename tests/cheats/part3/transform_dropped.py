"""AutoAugment is gone."""

from variation import train_with

train_with(("            v2.AutoAugment(),\n", ""))
