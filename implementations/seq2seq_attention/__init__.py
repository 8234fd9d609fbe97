"""Implementations of the contract `seq2seq_attention`, each independent of the others and of the oracle."""
