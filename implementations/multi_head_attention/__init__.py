"""Implementations of the contract `multi_head_attention`, each independent of the others and of the oracle."""
