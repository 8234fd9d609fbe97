"""Measurements → charts: what they show, and which files they are."""
