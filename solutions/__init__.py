"""train.py as it stands after each part, and the pieces that the parts add to it."""
