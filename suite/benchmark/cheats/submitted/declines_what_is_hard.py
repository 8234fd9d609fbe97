"""Declines all that it cannot do, the core included."""


def attention(query, key, value):
    raise NotImplementedError("not today")
