"""Implementations of the contract `varlen_attention`; most compute each item by one of `attention`."""
