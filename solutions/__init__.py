"""The training script as it stands after each part of the workshop."""
