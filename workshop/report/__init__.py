"""The page that shows a measurement: what holds a script up, its phases, its steps, and its lines."""
