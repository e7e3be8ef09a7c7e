"""How should the batches of a training be loaded? Settings of its DataLoader, tried in a run of the script."""
