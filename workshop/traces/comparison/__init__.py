"""The traces of two runs compared."""
