"""Implementations of the contract `rotary_embedding`, each independent of the others and of the oracle."""
