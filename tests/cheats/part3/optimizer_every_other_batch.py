"""The optimizer steps for every second batch only."""

from variation import train_with

train_with(("                optimizer.step()", "                if step % 2: optimizer.step()"))
