"""Implementations of the contract `bleu`, each independent of the others and of the oracle."""
