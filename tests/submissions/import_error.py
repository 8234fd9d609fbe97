"""Imports what is not installed, and does not declare that it requires it."""

import nosuch


def attention(query, key, value):
    return nosuch.attention(query, key, value)
