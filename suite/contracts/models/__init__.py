"""Contracts of whole models, and what they have in common."""
