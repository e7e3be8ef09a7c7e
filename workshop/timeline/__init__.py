"""Traces as a page: what costs time in words, where it goes as bars, and a timeline to look into."""
