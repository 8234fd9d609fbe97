"""Implementations of the contract `token_masking`, each independent of the others and of the oracle."""
