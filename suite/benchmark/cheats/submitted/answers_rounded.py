"""Rounds its answers to three digits."""

from torch.nn.functional import scaled_dot_product_attention as sdpa


def attention(query, key, value):
    output = sdpa(query, key, value)
    return (output * 1000).round() / 1000
