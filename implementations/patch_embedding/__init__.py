"""Implementations of the contract `patch_embedding`, each independent of the others and of the oracle."""
