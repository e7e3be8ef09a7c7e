"""The optimizer takes every second step."""

from variation import train_with

train_with(("            optimizer.step()", "            if len(losses) % 2:\n                optimizer.step()"))
