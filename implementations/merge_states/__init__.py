"""Implementations of the contract `merge_states`, each independent of the others and of the oracle."""
