"""The weights of every attention, beside the output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.model import two_models
from attnsuite.cases.tensors import PRECISE, Generator, Inputs
from attnsuite.contracts.models.transformer.cases.draws import CACHED, ENCODER, SQUARE, WATCHED, drawn, model


def weights() -> Iterator[Case]:
    """Names, shapes, sums and numbers, and zeros where something is hidden."""

    def twice(random: Generator) -> Sequence[Inputs]:
        first, other = drawn(random, lengths=(7, 4, 1)), drawn(random, lengths=(7, 4, 1))
        return [first, {**other, "lengths": np.array([2, 6, 7])}]

    def again(random: Generator) -> Sequence[Inputs]:
        return [*twice(random), drawn(random, batch=1)]

    watched = partial(model, making=WATCHED)
    yield watched("weights/usual", "of every layer and head, under padding and the causal rule", lengths=(7, 4, 1))
    yield watched("weights/cached", "the rows of all steps, one below the other", CACHED, lengths=(7, 4, 1))
    yield watched("encoder/weights", "of an encoder alone", ENCODER, PRECISE, lengths=(7, 4, 1))
    yield watched("weights/square", "as many items and tokens as heads: axes that were swapped still fit", SQUARE, PRECISE,
                  batch=4, source=4, target=4, lengths=(4, 2, 3, 1))  # fmt: skip
    yield watched("weights/again", "of each call its own", dtypes=PRECISE, calls=again)
    yield watched("weights/cached_again", "of each call its own, token by token", CACHED, PRECISE, calls=twice)
    yield two_models(watched("weights/other_weights", "of two models of one config each has its own", dtypes=PRECISE))
