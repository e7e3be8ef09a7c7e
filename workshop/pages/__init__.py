"""Draws what the instruments have found as pages, each of them one HTML file that loads nothing; and as pictures."""
