"""No gradient goes back through more than one picture."""

from variation import train_with

train_with(("pictures.append(picture)", "pictures.append(picture)\n            memory = memory.detach()"))
