"""Correct attention as computations of small steps that mutants replace."""
