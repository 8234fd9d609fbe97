"""What the contract decides, a family per decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from attnsuite.cases import Calls, Case, ChangedCase, Conventions
from attnsuite.cases.expected import NearInNorm
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.model import two_models
from attnsuite.cases.tensors import PRECISE, Generator, Inputs, dtype_of, generator
from attnsuite.contracts.blocks.positional_encoding import oracle as positional_encoding
from attnsuite.contracts.models.transformer.cases.draws import (
    CACHED,
    ENCODER,
    SQUARE,
    USUAL,
    WATCHED,
    drawn,
    faint,
    far_apart,
    model,
)
from attnsuite.contracts.models.translations import translating
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.rounded import Rounded


def plain() -> Iterator[Case]:
    """Whole models."""
    yield model("plain/usual", "two blocks each, sources of several lengths", lengths=(7, 4, 1))
    yield model("plain/square", "as many items and tokens as heads, as many words and network columns as the width", SQUARE,
                batch=4, source=4, target=4)  # fmt: skip
    yield model("plain/one_token", "one token to read, one to write", batch=1, source=1, target=1,
                dtypes=PRECISE)  # fmt: skip
    yield model("plain/wide", "eight heads, a wider network, one block and three", {**USUAL, "width": 32, "heads": 8,
                "ffn_width": 40, "encoder_blocks": 1, "decoder_blocks": 3}, PRECISE)  # fmt: skip
    yield model("plain/faint", "variances as small as ε, which is added to them before the root", dtypes=PRECISE,
                weights=faint(USUAL, generator("plain/faint")), lengths=(7, 4, 1))  # fmt: skip
    yield two_models(model("plain/other_weights", "two models of one config are there at once, each with weights of its own",
                       dtypes=PRECISE))  # fmt: skip
    yield out_of_order(model("plain/strides", "tokens and weights lie in memory from the last axis to the first, with gaps",
                          dtypes=PRECISE, lengths=(7, 4, 1)))  # fmt: skip


def encoder() -> Iterator[Case]:
    """Encoders alone, whose states are seen."""
    yield model("encoder/usual", "the states of every position, padded ones too", ENCODER, lengths=(7, 4, 1))
    yield model("encoder/no_blocks", "embeddings and positions alone", {**ENCODER, "encoder_blocks": 0}, PRECISE)


def padding() -> Iterator[Case]:
    """Lengths of sources."""

    def others(random: Generator) -> Sequence[Inputs]:
        first = drawn(random, lengths=(6, 3, 1))
        beyond = np.arange(7) >= first["lengths"][:, None]
        changed = np.where(beyond, (first["source"] + 1) % USUAL["source_vocab"], first["source"])
        return [first, {**first, "source": changed}]

    yield model("padding/none", "every source is whole", lengths=(7, 7, 7))
    yield model("padding/one_left", "the second item has one token alone, the first all but one", lengths=(6, 1, 3))
    yield model("padding/one_item", "a single source, of which some is padding", dtypes=PRECISE, batch=1, lengths=(4,))
    yield model("padding/long", "sources of which one is padded beyond the 64th token, one nearly as a whole", dtypes=PRECISE,
                batch=2, source=70, lengths=(66, 3))  # fmt: skip
    yield model("padding/low_scores", "scores of what may be attended to lie below −10⁹, where some put what may not",
                dtypes=PRECISE, weights=far_apart(USUAL, generator("padding/low_scores")), lengths=(7, 1, 2))  # fmt: skip
    yield model("padding/other_tokens", "what stands beyond a length changes nothing", calls=others)


def cached() -> Iterator[Case]:
    """Decoding token by token."""

    def several(random: Generator) -> Sequence[Inputs]:
        return [drawn(random), drawn(random), drawn(random, source=4, target=6)]

    def larger(random: Generator) -> Sequence[Inputs]:
        return [drawn(random), drawn(random, batch=5)]

    yield model("cached/usual", "the logits are those of the whole target", CACHED, lengths=(7, 4, 1))
    yield model("cached/one_token", "a single step", CACHED, target=1, dtypes=PRECISE)
    yield model("cached/one_item", "a single source, of which some is padding", CACHED, PRECISE, batch=1, lengths=(4,))
    yield model("cached/long", "more steps than a small cache holds, of a single item", CACHED, batch=1, target=100)
    yield model("cached/larger", "a batch larger than the first", CACHED, PRECISE, calls=larger)
    yield model(
        "cached/again", "nothing is left of the calls before, of the same sizes and others", CACHED, calls=several
    )


def sizes() -> Iterator[Case]:
    """One model, called with batches and lengths of many sizes."""

    def several(random: Generator) -> Sequence[Inputs]:
        return [
            drawn(random, batch=batch, source=length, target=length) for batch in (1, 7) for length in (1, 5, 33, 128)
        ]

    def again(random: Generator) -> Sequence[Inputs]:
        first, other = drawn(random, lengths=(7, 4, 1)), drawn(random, lengths=(7, 4, 1))
        return [first, other, {**other, "lengths": np.array([2, 6, 7])}]

    yield model("sizes/again", "other tokens, and then other lengths, are written into the same tensors", calls=again,
                same_storage=True)  # fmt: skip
    yield model("sizes/several", "batches of 1 and 7, lengths of 1, 5, 33 and 128", calls=several)
    yield model("sizes/long", "positions and keys beyond the 128th, targets beyond the 256th", batch=1, source=150,
                target=300)  # fmt: skip
    yield Far(model("sizes/far", "more positions than tables usually have, and angles in which half precision shows",
                    {**ENCODER, "encoder_blocks": 0}, batch=1, source=6000))  # fmt: skip


def greedy() -> Iterator[Case]:
    """Translations, token by token."""
    said = partial(translating, model)
    yield said(USUAL, "greedy/usual", "translations that end in different steps, or not at all", (*PRECISE, "float16"))
    yield said(CACHED, "greedy/cached", "the same with a cache, token by token the same", (*PRECISE, "float16"))
    yield said(USUAL, "greedy/one_item", "a single source", PRECISE, items=(1,))
    yield said(CACHED, "greedy/cached_one_step", "the first token alone", PRECISE, steps=1)
    yield said(USUAL, "greedy/again", "of each call its own", PRECISE, items=(3, 1, 3))
    yield said(CACHED, "greedy/cached_again", "of each call its own, with a cache", PRECISE, items=(3, 1, 3))
    shown = partial(said, dtypes=PRECISE, making=WATCHED)
    yield shown(USUAL, "greedy/weights", "the weights of every step beside the tokens, zeros behind the end")
    yield shown(CACHED, "greedy/cached_weights", "the same with a cache, of each call its own", items=(3, 1))


class Far(ChangedCase):
    """Embeddings and positions alone. There are so many that errors of their angles show, and these are allowed as well."""

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[NearInNorm, ...]:
        (due,), precision = self.of.expected(calls, conventions), PRECISIONS[dtype_of(calls[0])]
        angles = positional_encoding(Rounded.exact(np.zeros(due.value.shape), precision)).bound
        return (replace(due, allowed=due.allowed + np.sqrt((angles**2).sum(-1))),)
