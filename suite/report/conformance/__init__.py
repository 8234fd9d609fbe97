"""Outcomes → conformance.md: the page, and what it is made of."""
