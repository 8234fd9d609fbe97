"""Correct attention as computations of small steps, each of which a mutant may replace."""
