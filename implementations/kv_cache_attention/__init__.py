"""Implementations of the contract `kv_cache_attention`, each independent of the others and of the oracle."""
