"""Implementations of the contract `positional_encoding`, each independent of the others and of the oracle."""
