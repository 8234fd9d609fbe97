"""Pairs of sentences: the English–French set that ships, loading of others, and what models read of them."""
