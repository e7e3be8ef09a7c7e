"""Profilers that record a run from outside, started so that nobody has to remember their flags."""
