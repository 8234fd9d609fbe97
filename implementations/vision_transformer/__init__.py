"""Implementations of the contract `vision_transformer`, each independent of the oracle."""
