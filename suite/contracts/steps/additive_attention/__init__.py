"""Additive attention, as Bahdanau, Cho and Bengio score it."""
