"""Implementations of the contract `positionwise_ffn`, each independent of the others and of the oracle."""
