"""Diagnoses one training script: where its time goes, and what it could gain."""
