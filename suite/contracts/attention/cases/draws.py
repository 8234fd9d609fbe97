"""How the numbers of a case are drawn: always so that a mistake shows."""

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
DRAWS: dict[str, Draw] = {}
BY_DTYPE = frozenset({"large_values", "subnormal_values", "uneven_sizes"})
"""The draws that depend on the dtype: their numbers lie near its limits."""


def draw(function: Draw) -> Draw:
    DRAWS[function.__name__] = function
    return function


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


@draw
def peaked(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Each query prefers one key, and each boundary key is preferred by some query; values have a non-zero mean.

    A mean over many random keys hides what is done to one of them. So queries lean towards a target strongly enough to
    give it a large weight among all keys: in turn the last keys, the query's own position, and the whole range.
    """
    key = random.normal(size=(sizes.batch, sizes.key_heads, sizes.keys, sizes.width))
    query = random.normal(size=(sizes.batch, sizes.heads, sizes.queries, sizes.width))
    value = random.normal(size=(sizes.batch, sizes.key_heads, sizes.keys, sizes.value_width))
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


def targets(sizes: Sizes) -> Array:
    """The key that each query leans towards."""
    queries = np.arange(sizes.queries)
    last = sizes.keys - 1 - queries // 3 % sizes.keys
    own = queries % sizes.keys
    spread = queries * sizes.keys // max(sizes.queries, 1)
    return np.choose(queries % 3, [last, own, spread])


@draw
def leaning_ahead(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Each query leans towards the key after its own, the first that causal attention hides.

    Keys are equally long, so that no other is as near.
    """
    query, key, value = peaked(random, replace(sizes, queries=0), dtype)
    key = key * np.sqrt(sizes.width / (key**2).sum(-1, keepdims=True))
    key = np.repeat(key, sizes.heads // sizes.key_heads, axis=1)
    target = key[:, :, np.minimum(np.arange(sizes.queries) + 1, sizes.keys - 1)]
    strength = (np.log(sizes.keys) + 3) * np.sqrt(sizes.width)
    query = strength * target / sizes.width
    return query, key[:, :: sizes.heads // sizes.key_heads], value


@draw
def cancelling_products(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Products of ±512 and ±1,024 that cancel, and small ones that decide: give a width of 16, whose root is 4.

    All products that cancel are exact, and so is the scaling by a power of two: only the sum may round.
    """
    query, key, value = peaked(random, replace(sizes, width=sizes.width // 2), dtype)
    signs = np.where(np.arange(query.shape[-1]) % 2, -1.0, 1.0)
    large = 2.0 ** random.integers(4, 6, size=(*key.shape[:-1], 1))
    query = query * np.sqrt(2)  # it was drawn for a scale of half the width
    return _alternating(query, 32.0 * signs), _alternating(key, large), value


def _alternating(first: Array, second: Array) -> Array:
    """Components of one and the other array by turns, twice as wide."""
    return np.stack([first, np.broadcast_to(second, first.shape)], -1).reshape(*first.shape[:-1], -1)


@draw
def equal_logits(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """All keys alike: every weight is 1/s and the output the mean of the values."""
    query, key, value = peaked(random, sizes, dtype)
    return query, np.broadcast_to(key[:, :, :1], key.shape).copy(), value


@draw
def equal_constant(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Equal logits and equal values: equal rounding errors add up instead of cancelling."""
    query, key, value = equal_logits(random, sizes, dtype)
    return query, key, np.full_like(value, 0.7)


@draw
def huge_equal_logits(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Logits of about 10⁴, equal for all keys: only their differences may matter."""
    query, key, value = equal_logits(random, sizes, dtype)
    size = np.sqrt(1e4 / np.sqrt(sizes.width))
    return np.full_like(query, size), np.full_like(key, size), value


@draw
def huge_logits(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Logits of about ±10⁴ that differ by powers of two, exact in every dtype: the largest takes all."""
    query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.width))
    key = np.zeros((sizes.batch, sizes.key_heads, sizes.keys, sizes.width))
    query[..., 0] = np.where(random.random(query.shape[:-1]) < 0.5, -128.0, 128.0)
    key[..., 0] = random.integers(-110, 111, size=key.shape[:-1]) * 2.0
    _, _, value = peaked(random, sizes, dtype)
    return query, key, value


@draw
def opposite_logits(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Logits far below zero for every key: exp underflows unless the maximum is subtracted."""
    query, key, value = peaked(random, sizes, dtype)
    query, key = query * 0.3, key * 0.3
    query[..., 0], key[..., 0] = 24.0, -24.0
    return query, key, value


@draw
def abysmal_logits(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Logits near −23,000 for every key, below any finite fill that half precision can hold."""
    query, key, value = opposite_logits(random, sizes, dtype)
    query[..., 0], key[..., 0] = 256.0, -256.0
    return query, key, value


@draw
def uneven_sizes(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Large queries and small keys: a score computed as a difference of squares cancels away.

    In float16 less uneven: the gradient of the keys grows with the queries, and before it is scaled an honest backward
    may store it several times as large as it is.
    """
    query, key, value = peaked(random, sizes, dtype)
    times = 30 if dtype == "float16" else 500
    return query * times, key / times, value


@draw
def dominant_key(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """One key takes nearly all weight; the others must not add up to anything."""
    query, key, value = peaked(random, sizes, dtype)
    query[..., 0] = 6.0
    key[..., sizes.keys // 2, 0] = 6.0 * np.sqrt(sizes.width)
    return query, key, value


@draw
def overflowing_products(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """|q| and |k| near 400: their products exceed float16 although the scaled scores are small. Give a small scale."""
    query, key, value = peaked(random, sizes, dtype)
    return query * 100 + 250, key * 100 + 250, value


@draw
def large_values(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Values near the largest number of the dtype: a sum of unnormalised weights would overflow."""
    query, key, value = peaked(random, sizes, dtype)
    return query, key, np.sign(value) * PRECISIONS[dtype].large * (0.5 + 0.45 * random.random(value.shape))


@draw
def subnormal_values(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Values a little above the smallest normal number: their weighted sums must not vanish."""
    query, key, value = peaked(random, sizes, dtype)
    return query, key, np.sign(value) * PRECISIONS[dtype].normal * (8 + 56 * random.random(value.shape))


@draw
def offset_values(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Values share a large offset: weights that do not sum to one show at once."""
    query, key, value = peaked(random, sizes, dtype)
    return query, key, value + 1000


@draw
def identity_values(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Values are the identity, so that the output is the weights themselves."""
    query, key, value = peaked(random, sizes, dtype)
    return query, key, np.broadcast_to(np.eye(sizes.keys, sizes.value_width), value.shape).copy()


@draw
def uniform_identity(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Zero queries and identity values: each output entry is 1/s, kept or dropped."""
    query, key, value = identity_values(random, sizes, dtype)
    return np.zeros_like(query), key, value


@draw
def even_weights(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """Weights near 1/s and values ±1, exact in every dtype: no key stands out, and little is rounded."""
    query, key, value = (
        random.normal(size=shape)
        for shape in (
            (sizes.batch, sizes.heads, sizes.queries, sizes.width),
            (sizes.batch, sizes.key_heads, sizes.keys, sizes.width),
            (sizes.batch, sizes.key_heads, sizes.keys, sizes.value_width),
        )
    )
    return query / 4, key, np.where(value < 0, -1.0, 1.0)


@draw
def even_weights_of_offset_values(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """The same around a mean of ½, so that every output is rounded at that size."""
    query, key, value = even_weights(random, sizes, dtype)
    return query, key, value + 0.5


@draw
def repeated_queries(random: Generator, sizes: Sizes, dtype: str) -> Triple:
    """All queries of a head alike: rows may differ only by what they may attend to."""
    query, key, value = peaked(random, sizes, dtype)
    return np.broadcast_to(query[:, :, :1], query.shape).copy(), key, value
