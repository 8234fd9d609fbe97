"""Draws: the numbers of a case, chosen so that mistakes show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from attnsuite.cases.tensors import Generator, continued, generator, seeded
from attnsuite.judging.precision import PRECISIONS

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sizes:
    """The axes of one attention: b h l e query, b g s e key, b g s v value."""

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    width: int
    value_width: int


Triple = tuple[Array, Array, Array]
Draw = Callable[[Generator, Sizes, str], Triple]
BY_DTYPE = frozenset({"large_values", "subnormal_values", "uneven_sizes"})
"""The draws that depend on the dtype: their numbers lie near its limits."""


def drawn(name: str, draw: str, sizes: Sizes, dtype: str) -> tuple[Triple, Array, Generator]:
    """A case's query, key and value, the output's gradient (b h l v), and its random numbers from there on."""
    triple, upstream, state = _drawn(name, seeded(), draw, sizes, dtype if draw in BY_DTYPE else "")
    return triple, upstream, continued(state)


@lru_cache(maxsize=1)  # a case runs in one dtype after the other
def _drawn(name: str, seed: int, draw: str, sizes: Sizes, dtype: str) -> tuple[Triple, Array, Any]:
    random = generator(name)
    query, key, value = DRAWS[draw](random, sizes, dtype)
    upstream = random.normal(size=(*query.shape[:-1], value.shape[-1])) + 0.25
    return (query, key, value), upstream, random.bit_generator.state


def peaked(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Each query prefers one key, and each boundary key is preferred by some query; values have a non-zero mean.

    A mean over many random keys hides an error in one of them. So queries lean towards a target strongly enough to give
    it a large weight: in turn the last keys, the query's own position, and the whole range.
    """
    query, key, value = _normal(random, sizes, ("key", "query", "value"))
    value += 0.5
    if sizes.keys and sizes.key_heads:
        heads = np.arange(sizes.heads) // (sizes.heads // sizes.key_heads)
        length = np.maximum((key**2).sum(-1), sizes.width / 2)  # squared: b g s
        strength = (np.log(sizes.keys) + 1) * np.sqrt(sizes.width) / length
        where = heads[:, None], targets(sizes)
        target = key[:, *where]  # b h l e
        target *= strength[:, *where][..., None]
        query += target
    return query, key, value


def _normal(random: Generator, sizes: Sizes, order: tuple[str, ...]) -> Triple:
    """Normally distributed query, key and value, drawn in this order."""
    shapes = {
        "query": (sizes.batch, sizes.heads, sizes.queries, sizes.width),
        "key": (sizes.batch, sizes.key_heads, sizes.keys, sizes.width),
        "value": (sizes.batch, sizes.key_heads, sizes.keys, sizes.value_width),
    }
    arrays = {name: random.normal(size=shapes[name]) for name in order}
    return arrays["query"], arrays["key"], arrays["value"]


def targets(sizes: Sizes) -> Array:
    """The key that each query leans towards."""
    queries = np.arange(sizes.queries)
    last = sizes.keys - 1 - queries // 3 % sizes.keys
    own = queries % sizes.keys
    spread = queries * sizes.keys // max(sizes.queries, 1)
    return np.choose(queries % 3, [last, own, spread])


def leaning_ahead(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Each query leans towards the key after its own, the first that causal attention hides; keys are equally long."""
    query, key, value = peaked(random, replace(sizes, queries=0), dtype)
    key = key * np.sqrt(sizes.width / (key**2).sum(-1, keepdims=True))
    key = np.repeat(key, sizes.heads // sizes.key_heads, axis=1)
    target = key[:, :, np.minimum(np.arange(sizes.queries) + 1, sizes.keys - 1)]
    strength = (np.log(sizes.keys) + 3) * np.sqrt(sizes.width)
    query = strength * target / sizes.width
    return query, key[:, :: sizes.heads // sizes.key_heads], value


def cancelling_products(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Products of ±512 and ±1,024 that cancel, and small ones that decide: for a width of 16, whose root is 4.

    All products that cancel are exact, and so is the scaling by a power of two: only the sum may round.
    """
    query, key, value = peaked(random, replace(sizes, width=sizes.width // 2), dtype)
    signs = np.where(np.arange(query.shape[-1]) % 2, -1.0, 1.0)
    large = 2.0 ** random.integers(4, 6, size=(*key.shape[:-1], 1))
    query = query * np.sqrt(2)  # it was drawn for a scale of half the width
    return _alternating(query, 32.0 * signs), _alternating(key, large), value


def _alternating(first: Array, second: Array) -> Array:
    """Components of both arrays in turn, twice as wide."""
    return np.stack([first, np.broadcast_to(second, first.shape)], -1).reshape(*first.shape[:-1], -1)


def huge_logits(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Logits of about ±10⁴ that differ by powers of two, exact in every dtype: the largest takes all."""
    query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.width))
    key = np.zeros((sizes.batch, sizes.key_heads, sizes.keys, sizes.width))
    query[..., 0] = np.where(random.random(query.shape[:-1]) < 0.5, -128.0, 128.0)
    key[..., 0] = random.integers(-110, 111, size=key.shape[:-1]) * 2.0
    return query, key, peaked(random, sizes, dtype)[2]


def bottomless_logits(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Logits from −262,144 to −180,224 for a width of 16, exact in every dtype: the largest takes all."""
    query, key, value = huge_logits(random, sizes, dtype)
    query[..., 0], key[..., 0] = 1024.0, -4.0 * random.integers(176, 256, size=key.shape[:-1])
    return query, key, value


def subnormal_values(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Values a little above the smallest normal number: their weighted sums must not vanish."""
    query, key, value = peaked(random, sizes, dtype)
    return query, key, np.sign(value) * PRECISIONS[dtype].normal * (8 + 56 * random.random(value.shape))


def large_values(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Values near the largest number of the dtype: a sum of unnormalised weights would overflow."""
    query, key, value = peaked(random, sizes, dtype)
    return query, key, np.sign(value) * PRECISIONS[dtype].large * (0.5 + 0.45 * random.random(value.shape))


def uneven_sizes(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Large queries and small keys: a score computed as a difference of squares cancels away.

    In float16 less uneven: the gradient of the keys grows with the queries, and before it is scaled an honest backward
    pass may store it several times as large as it is.
    """
    query, key, value = peaked(random, sizes, dtype)
    times = 30 if dtype == "float16" else 500
    return query * times, key / times, value


def even_weights(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Weights near 1/s and values ±1, exact in every dtype: no key stands out, and little is rounded."""
    query, key, value = _normal(random, sizes, ("query", "key", "value"))
    return query / 4, key, np.where(value < 0, -1.0, 1.0)


def _changed(draw: Draw, change: Callable[[Array, Array, Array], Triple]) -> Draw:
    """A draw whose query, key and value are changed."""
    return lambda random, sizes, dtype: change(*draw(random, sizes, dtype))


def _first_component(query: float, key: float) -> Callable[[Array, Array, Array], Triple]:
    """Small queries and keys with a first component that decides the size of the logits."""

    def change(q: Array, k: Array, value: Array) -> Triple:
        q, k = q * 0.3, k * 0.3
        q[..., 0], k[..., 0] = query, key
        return q, k, value

    return change


def _dominant(query: Array, key: Array, value: Array) -> Triple:
    query[..., 0] = 6.0
    key[..., key.shape[-2] // 2, 0] = 6.0 * np.sqrt(key.shape[-1])
    return query, key, value


def _first(array: Array) -> Array:
    """The first row for all."""
    return np.broadcast_to(array[:, :, :1], array.shape).copy()


def _identity(value: Array) -> Array:
    return np.broadcast_to(np.eye(*value.shape[-2:]), value.shape).copy()


def _of_logits(array: Array) -> Array:
    """Components of equal size, for logits of 10⁴."""
    return np.full_like(array, np.sqrt(1e4 / np.sqrt(array.shape[-1])))


_equal = _changed(peaked, lambda q, k, v: (q, _first(k), v))
DRAWS: dict[str, Draw] = {
    "peaked": peaked,
    "leaning_ahead": leaning_ahead,
    "cancelling_products": cancelling_products,
    # all keys alike: every weight is 1/s and the output the mean of the values
    "equal_logits": _equal,
    # equal values as well: equal rounding errors add up instead of cancelling
    "equal_constant": _changed(_equal, lambda q, k, v: (q, k, np.full_like(v, 0.7))),
    # logits of about 10⁴, equal for all keys: only their differences may matter
    "huge_equal_logits": _changed(_equal, lambda q, k, v: (_of_logits(q), _of_logits(k), v)),
    "huge_logits": huge_logits,
    # logits far below zero for every key: exp underflows unless the maximum is subtracted
    "opposite_logits": _changed(peaked, _first_component(24.0, -24.0)),
    # logits near −23,000 for every key, below any finite fill that half precision can hold
    "abysmal_logits": _changed(peaked, _first_component(256.0, -256.0)),
    "bottomless_logits": bottomless_logits,
    "uneven_sizes": uneven_sizes,
    # one key takes nearly all weight; the others must not add up to anything
    "dominant_key": _changed(peaked, _dominant),
    # |q| and |k| near 400: their products exceed float16 although the scaled scores are small; for a small scale
    "overflowing_products": _changed(peaked, lambda q, k, v: (q * 100 + 250, k * 100 + 250, v)),
    "large_values": large_values,
    "subnormal_values": subnormal_values,
    # values share a large offset: weights that do not sum to one show at once
    "offset_values": _changed(peaked, lambda q, k, v: (q, k, v + 1000)),
    # values are the identity, so that the output is the weights themselves
    "identity_values": _changed(peaked, lambda q, k, v: (q, k, _identity(v))),
    # zero queries as well: each output entry is 1/s, kept or dropped
    "uniform_identity": _changed(peaked, lambda q, k, v: (np.zeros_like(q), k, _identity(v))),
    "even_weights": even_weights,
    # around a mean of ½, so that every output is rounded at that size
    "even_weights_of_offset_values": _changed(even_weights, lambda q, k, v: (q, k, v + 0.5)),
    # all queries of a head alike: rows may differ only by what they may attend to
    "repeated_queries": _changed(peaked, lambda q, k, v: (_first(q), k, v)),
}
