"""The instructor's room: a server that gets a class its packages and photos, takes its results, and shows the board."""
