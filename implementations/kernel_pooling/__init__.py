"""Implementations of the contract `kernel_pooling`, each independent of the others and of the oracle."""
