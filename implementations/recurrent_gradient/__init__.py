"""Implementations of the contract `recurrent_gradient`, each independent of the others and of the oracle."""
