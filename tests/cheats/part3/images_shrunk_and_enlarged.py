"""The pictures are made tiny, and then as large again as they should be."""

from variation import train_with

train_with(("v2.Resize((side, side)),", "v2.Resize((16, 16)), v2.Resize((side, side)),"))
