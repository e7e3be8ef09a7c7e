"""Notebooks as scripts: a `.ipynb` is read, its cells are made Python, and a line in one gets the name people know."""
