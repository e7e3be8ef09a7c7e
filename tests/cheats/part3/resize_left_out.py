"""Photos are cropped at their own size, and never resized."""

from variation import train_with

train_with(("            v2.Resize((side, side)),\n", ""))
