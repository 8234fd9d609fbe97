"""Precision, error bounds, and the only comparison of tensors."""
