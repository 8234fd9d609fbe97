"""Implementations of the contract `transformer`, each independent of the oracle."""
