"""Answers zeros."""


def attention(query, key, value):
    return query.new_zeros(*query.shape[:-1], value.shape[-1])
