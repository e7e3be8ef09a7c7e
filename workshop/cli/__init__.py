"""The commands of the workshop: this package parses what is typed and prints the result; others do the work."""
