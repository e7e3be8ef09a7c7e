"""The commands of the workshop: what a person types is parsed here, done elsewhere, and printed here."""
