"""The page that shows a measurement: the bottlenecks of a script, its phases, its steps, and its lines."""
