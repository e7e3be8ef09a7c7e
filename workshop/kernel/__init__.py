"""The magics of a notebook: the instruments on its cells, as far as the kernel has run them, and on scripts."""
