"""Implementations of the contract `attention_weights`, each independent of the others and of the oracle."""
