"""Implementations of the contract `attention`, each independent of the others and of the oracle."""
