"""Contracts of the blocks that a Transformer is made of."""
