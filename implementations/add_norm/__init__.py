"""Implementations of the contract `add_norm`, each independent of the others and of the oracle."""
