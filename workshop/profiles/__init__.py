"""Readers of what profilers write, a module for each format. A reader never prints."""
