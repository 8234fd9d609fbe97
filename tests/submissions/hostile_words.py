"""Says things that a terminal obeys and that no encoding has."""


def attention(query, key, value):
    """Raise an error with control characters, a mark of direction and a lone surrogate in it."""
    raise ValueError("red \x1b[31m, right to left \u202e, and half a character \udc80")
