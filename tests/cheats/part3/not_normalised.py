"""The pictures enter the model as they are, from 0 to 1."""

from variation import train_with

train_with(("            v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),\n", ""))
