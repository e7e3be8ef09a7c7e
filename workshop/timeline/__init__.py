"""Draws traces as a page: sentences about what costs time, bars that show where it goes, and a timeline."""
