"""The way through the parts: checks, progress, hints, and the workshop's test of itself."""
