"""Draws a line profile: the source, with the hits, the time and the heat of each line beside it."""

from workshop.listing.page import fragment, page

__all__ = ["fragment", "page"]
