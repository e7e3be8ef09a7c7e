"""What runs inside a script whose lines are counted; beside the probe it needs line_profiler alone."""
