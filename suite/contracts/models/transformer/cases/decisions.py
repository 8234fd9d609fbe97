"""What the contract decides, a family per decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from suite import asking
from suite.asking import Call, Conventions
from suite.asking.layouts import Scattered
from suite.asking.model import Plugged, Posed, Remade, Truth
from suite.asking.question import Generator, Inputs, dtype_of, generator
from suite.contracts.blocks.positional_encoding.oracle import positional_encoding
from suite.contracts.models.transformer.cases.draws import (
    CACHED,
    ENCODER,
    KIND,
    SURE,
    USUAL,
    drawn,
    faint,
    far_apart,
    once,
    posed,
)
from suite.judging.precision import PRECISIONS
from suite.judging.rounded import Rounded


def plain() -> Iterator[asking.Case]:
    """Whole models."""
    yield posed("plain/usual", "two blocks each, sources of several lengths", lengths=(7, 4, 1))
    yield posed("plain/square", "sources and targets of one length, as many as there are items and heads", batch=4,
                source=4, target=4)  # fmt: skip
    yield posed("plain/one_token", "one token to read, one to write", batch=1, source=1, target=1,
                dtypes=SURE)  # fmt: skip
    yield posed("plain/wide", "eight heads, a wider network, one block and three", {**USUAL, "width": 32, "heads": 8,
                "ffn_width": 40, "encoder_blocks": 1, "decoder_blocks": 3}, SURE)  # fmt: skip
    faintly = Posed("plain/faint", "variances as small as ε, which is added to them before the root", KIND, USUAL,
                    once(partial(drawn, lengths=(7, 4, 1))), dtypes=SURE)  # fmt: skip
    yield replace(faintly, weights=faint(USUAL, generator(faintly.name)))
    yield Remade("plain/other_weights", "two models of one config are there at once, each with weights of its own", KIND,
                 USUAL, once(drawn), dtypes=SURE)  # fmt: skip
    yield Scattered(posed("plain/strides", "tokens and weights lie in memory from the last axis to the first, with gaps",
                          dtypes=SURE, lengths=(7, 4, 1)))  # fmt: skip


def encoder() -> Iterator[Posed]:
    """Encoders alone, whose states are seen."""
    yield posed("encoder/usual", "the states of every position, padded ones too", ENCODER, lengths=(7, 4, 1))
    yield posed("encoder/no_blocks", "embeddings and positions alone", {**ENCODER, "encoder_blocks": 0}, SURE)


def padding() -> Iterator[Posed]:
    """Lengths of sources."""

    def others(random: Generator) -> Sequence[Inputs]:
        first = drawn(random, lengths=(6, 3, 1))
        beyond = np.arange(7) >= first["lengths"][:, None]
        changed = np.where(beyond, (first["source"] + 1) % USUAL["source_vocab"], first["source"])
        return [first, {**first, "source": changed}]

    yield posed("padding/none", "every source is whole", lengths=(7, 7, 7))
    yield posed("padding/one_left", "the second item has one token alone, the first all but one", lengths=(6, 1, 3))
    low = Posed("padding/low_scores", "scores of what may be attended to lie below −10,000, where some put what may not",
                KIND, USUAL, once(partial(drawn, lengths=(7, 1, 2))), dtypes=SURE)  # fmt: skip
    yield replace(low, weights=far_apart(USUAL, generator(low.name)))
    yield Posed("padding/other_tokens", "what stands beyond a length changes nothing", KIND, USUAL, others)


def cached() -> Iterator[Posed]:
    """Decoding token by token."""

    def several(random: Generator) -> Sequence[Inputs]:
        return [drawn(random), drawn(random), drawn(random, source=4, target=6)]

    def larger(random: Generator) -> Sequence[Inputs]:
        return [drawn(random), drawn(random, batch=5)]

    yield posed("cached/usual", "the logits are those of the whole target", CACHED, lengths=(7, 4, 1))
    yield posed("cached/one_token", "a single step", CACHED, target=1, dtypes=SURE)
    yield posed("cached/long", "more steps than a small cache holds, of a single item", CACHED, batch=1, target=100)
    yield Posed("cached/larger", "a batch larger than the first", KIND, CACHED, larger, dtypes=SURE)
    yield Posed(
        "cached/again", "nothing is left of the calls before, of the same sizes and others", KIND, CACHED, several
    )


def sizes() -> Iterator[Posed]:
    """One model, called with batches and lengths of many sizes."""

    def several(random: Generator) -> Sequence[Inputs]:
        return [
            drawn(random, batch=batch, source=length, target=length) for batch in (1, 7) for length in (1, 5, 33, 128)
        ]

    def long(random: Generator) -> Sequence[Inputs]:
        return [drawn(random, batch=1, source=150, target=300)]

    def again(random: Generator) -> Sequence[Inputs]:
        first, other = drawn(random, lengths=(7, 4, 1)), drawn(random, lengths=(7, 4, 1))
        return [first, other, {**other, "lengths": np.array([2, 6, 7])}]

    yield Posed("sizes/again", "other tokens, and then other lengths, are written into the same tensors", KIND, USUAL,
                again, same_storage=True)  # fmt: skip
    yield Posed("sizes/several", "batches of 1 and 7, lengths of 1, 5, 33 and 128", KIND, USUAL, several)
    yield Posed("sizes/long", "positions and keys beyond the 128th, targets beyond the 256th", KIND, USUAL, long)
    yield Far("sizes/far", "more positions than tables usually have, and angles in which half precision shows", KIND,
              {**ENCODER, "encoder_blocks": 0}, once(partial(drawn, config=ENCODER, batch=1, source=6000)))  # fmt: skip


def plug() -> Iterator[Plugged]:
    """An attention that is plugged in."""
    usual = once(partial(drawn, lengths=(7, 4, 1)))
    yield Plugged(
        "plug/called", "the attention that is given computes all heads, and in the weights' dtype", KIND, USUAL, usual
    )
    yield Plugged("plug/cached", "decoding token by token asks it as well", KIND, CACHED, usual, dtypes=SURE)


@dataclass(frozen=True)
class Far(Posed):
    """Embeddings and positions alone, so many that what angles may be off by shows: as much more is allowed."""

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> list[Truth]:
        (truth,), precision = super().truth(calls, conventions), PRECISIONS[dtype_of(calls[0])]
        angles = positional_encoding(Rounded.exact(np.zeros(truth.value.shape), precision)).bound
        return [replace(truth, allowed=truth.allowed + np.sqrt((angles**2).sum(-1)))]
