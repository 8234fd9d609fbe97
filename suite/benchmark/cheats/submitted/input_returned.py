"""Returns an input."""


def attention(query, key, value):
    return value
