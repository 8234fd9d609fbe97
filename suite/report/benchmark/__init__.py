"""Measurements → benchmark.md: the page, and what it is made of."""
