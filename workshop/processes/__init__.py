"""Starts, follows and ends other people's processes."""
