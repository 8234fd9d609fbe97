"""Attentions that are timed: a good one, and ones that a benchmark must not believe."""

import warnings

import torch

from attnsuite import implementation

sdpa = torch.nn.functional.scaled_dot_product_attention
remembered = {}


def attention(query, key, value, *, is_causal=False):
    warnings.warn("slow path", stacklevel=1)
    return sdpa(query, key, value, is_causal=is_causal)


def unscaled(query, key, value, *, is_causal=False):
    return sdpa(query, key, value, is_causal=is_causal, scale=1.0)


def raising(query, key, value):
    raise ValueError("never right")


def stale(query, key, value):
    if query.shape[-2:] != (1024, 64):  # what is timed, and no case
        return sdpa(query, key, value)
    where = query.data_ptr(), key.data_ptr(), value.data_ptr()
    if where not in remembered:
        remembered[where] = sdpa(query, key, value)
    return remembered[where]


def threaded(query, key, value):
    if key.shape[-2] == 1024:
        torch.set_num_threads(2)
    return sdpa(query, key, value)


def picky(query, key, value):
    if key.shape[-2] == 1024:
        raise NotImplementedError("no keys by the thousand")
    return sdpa(query, key, value)


def failing(query, key, value):
    failing.calls += key.shape[-2] == 1024
    if failing.calls > 12:
        raise SystemExit("tired")
    return sdpa(query, key, value)


failing.calls = 0


@implementation(lacks={"float32": "halves only"})
def half(query, key, value):
    return sdpa(query, key, value)
