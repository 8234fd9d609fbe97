"""Attention before it had the name: Nadaraya and Watson's regression."""
