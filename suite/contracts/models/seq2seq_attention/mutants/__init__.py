"""Bahdanau encoder–decoders with exactly one named mistake each."""
