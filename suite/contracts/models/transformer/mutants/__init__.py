"""Transformers with exactly one named mistake each."""
