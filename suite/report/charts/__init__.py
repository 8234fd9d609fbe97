"""Measurements → charts: what they show, where labels go, how they are drawn, which files they are."""
