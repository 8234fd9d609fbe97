"""Contracts of single steps of attention, and of what is trained beside it."""
