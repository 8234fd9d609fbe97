"""Attentions that are checked: one with a gap that is none and a warning, and one with a mistake."""

import warnings

import torch

from attnsuite import implementation

sdpa = torch.nn.functional.scaled_dot_product_attention


@implementation(lacks={"no_keys": "never empty"})
def attention(query, key, value, *, scale=None, is_causal=False):
    warnings.warn("slow path", stacklevel=1)
    if is_causal and key.shape[-2] == 16:
        raise NotImplementedError("no triangles of sixteen")
    return sdpa(query, key, value, is_causal=is_causal)


def unscaled(query, key, value):
    return (query @ key.mT).softmax(-1) @ value
