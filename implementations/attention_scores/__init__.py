"""Implementations of the contract `attention_scores`, each independent of the others and of the oracle."""
