"""Photos are made smaller by taking the nearest pixels."""

from variation import train_with

train_with(("v2.Resize((side, side)),", "v2.Resize((side, side), v2.InterpolationMode.NEAREST),"))
