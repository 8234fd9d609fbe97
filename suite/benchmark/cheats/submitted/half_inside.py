"""Computes in bfloat16 whatever the dtype."""

from torch.nn.functional import scaled_dot_product_attention as sdpa


def attention(query, key, value):
    return sdpa(*(tensor.bfloat16() for tensor in (query, key, value))).to(query.dtype)
