"""Implementations of the contract `additive_attention`, each independent of the others and of the oracle."""
