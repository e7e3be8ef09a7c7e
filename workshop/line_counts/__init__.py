"""Runs inside a script, beside the probe, and counts its lines; unlike the probe, it needs line_profiler."""
