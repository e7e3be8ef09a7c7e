"""The code that runs inside somebody's training script; it imports the standard library and torch alone."""
