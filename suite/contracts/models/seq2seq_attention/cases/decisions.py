"""What the contract decides: a family per decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.model import two_models
from attnsuite.cases.tensors import PRECISE, Generator, Inputs, generator
from attnsuite.contracts.models.seq2seq_attention.cases.draws import USUAL, WATCHED, drawn, model, weights
from attnsuite.contracts.models.translations import translating


def several_and_one(name: str, why: str, **unusual: Any) -> Case:
    """Three items of several lengths, then one."""
    config = {**USUAL, **unusual}

    def inputs(random: Generator) -> Sequence[Inputs]:
        several, one = (
            drawn(random, config=config, lengths=(2, 7, 4)),
            drawn(random, config=config, batch=1, lengths=(3,)),
        )
        return [several, one]

    return model(name, why, config, calls=inputs)


def plain() -> Iterator[Case]:
    """Additive scores and a GRU of one layer."""
    square = {**USUAL, "source_vocab": 8, "target_vocab": 8, "embedding": 8}
    yield model("plain/usual", "sources longer than targets, several items")
    yield model("plain/long_target", "a target longer than the source", source=3, target=9)
    yield model(
        "plain/square", "all sizes equal: axes that were swapped still fit", square, batch=8, source=8, target=8
    )


def lengths() -> Iterator[Case]:
    """Sources that may be attended to in part."""

    def more_padding(random: Generator) -> Sequence[Inputs]:
        first = drawn(random, lengths=(3, 5, 1))
        return [first, {**first, "source": np.pad(first["source"], ((0, 0), (0, 2)))}]

    def again(random: Generator) -> Sequence[Inputs]:
        first = drawn(random, lengths=(7, 4, 2))
        return [first, {**first, "lengths": np.array([3, 7, 5])}]

    far_apart = weights(USUAL, generator("far apart"), peak=1e11)
    yield model("lengths/several", "each item has a length of its own", lengths=(2, 7, 4))
    yield model("lengths/ones", "nothing but the first position may be attended to", lengths=(1, 1, 1))
    yield model("lengths/window", "windows that reach beyond a length", {**USUAL, "window": 2}, lengths=(4, 7, 5))
    yield model("lengths/more_padding", "the encoder runs over the padding, which gives no keys but changes its final state",
                calls=more_padding)  # fmt: skip
    yield model("lengths/again", "other lengths of the same source", calls=again)
    yield model("lengths/low_scores", "scores of what may be attended to lie below −10⁹, where some put what may not",
                dtypes=PRECISE, weights=far_apart, lengths=(1, 1, 2))  # fmt: skip


def score() -> Iterator[Case]:
    """Dot products in place of additive scores."""
    yield model("score/dot", "as they are", {**USUAL, "score": "dot"})
    yield model("score/scaled_dot", "divided by √d", {**USUAL, "score": "scaled_dot"})
    yield several_and_one("score/dot_window", "dot products with the states in a window", score="dot", window=1)
    yield several_and_one("score/dot_lengths", "dot products with keys that get no weight", score="dot")


def cell() -> Iterator[Case]:
    """LSTMs in place of GRUs."""
    yield model("cell/lstm", "four gates, and two parts of a state", {**USUAL, "cell": "lstm"})
    yield model("cell/lstm_layers", "each layer hands on its own memory cell", {**USUAL, "cell": "lstm", "layers": 2})
    yield model(
        "cell/lstm_dot", "the hidden state asks, not the memory cell", {**USUAL, "cell": "lstm", "score": "dot"}
    )
    square = {**USUAL, "embedding": 8, "layers": 2, "cell": "lstm"}
    yield model("cell/lstm_square", "two layers of one size, which could share their weights", square, PRECISE)
    yield several_and_one("cell/lstm_lengths", "LSTMs run over the padding, which gives no keys", cell="lstm", layers=2)


def window() -> Iterator[Case]:
    """Attention to positions around the step alone."""
    yield model("window/usual", "three positions, fewer at the source's ends", {**USUAL, "window": 1}, target=7)
    yield model("window/zero", "the step's own position", {**USUAL, "window": 0})
    yield model("window/beyond", "windows that lie beyond the source give no context", {**USUAL, "window": 2},
                source=4, target=9)  # fmt: skip
    yield model("window/all", "a window wider than the source", {**USUAL, "window": 20})
    yield several_and_one("window/lstm", "an LSTM attends to a window", cell="lstm", window=2)
    yield several_and_one("window/scaled_dot", "scaled dot products, where some windows lie beyond the length",
                          score="scaled_dot", window=1)  # fmt: skip


def layers() -> Iterator[Case]:
    """Several layers."""
    yield model("layers/two", "the top layer is attended to, and asks", {**USUAL, "layers": 2})
    yield model("layers/dot", "the top layer asks in dot products too", {**USUAL, "layers": 2, "score": "dot"})
    yield model("layers/window", "two layers attend to a window", {**USUAL, "layers": 2, "window": 1})
    square = {**USUAL, "source_vocab": 8, "target_vocab": 8, "embedding": 8, "layers": 2}
    yield model("layers/square", "two layers of one size, which could share their weights", square, PRECISE)
    yield model("layers/three", "each layer begins with the state of its own", {**USUAL, "layers": 3})


def sizes() -> Iterator[Case]:
    """One model, called with batches and lengths of many sizes."""

    def several(random: Generator) -> Sequence[Inputs]:
        return [drawn(random, batch=batch, source=source, target=3) for batch in (7, 1) for source in (1, 5, 33)]

    yield model("sizes/several", "batches of 7 and 1, sources of 1, 5 and 33", calls=several)
    yield model("sizes/one_of_each", "one item, one position, one step", dtypes=PRECISE, batch=1, source=1, target=1)
    yield model("sizes/long_target", "many steps", batch=2, target=19)


def shown_weights() -> Iterator[Case]:
    """The weights of every step, beside the logits."""
    square = {**USUAL, "source_vocab": 8, "target_vocab": 8, "embedding": 8}
    watched = partial(model, making=WATCHED)
    yield watched("weights/usual", "of every step and item", lengths=(2, 7, 4))
    yield watched("weights/square", "as many items, steps and positions", square, PRECISE, batch=8, source=8, target=8)
    yield watched("weights/one_position", "a single position has all of it", dtypes=PRECISE, source=1)
    yield watched("score/weights", "of scaled dot products", {**USUAL, "score": "scaled_dot"}, lengths=(2, 7, 4))
    yield watched("window/weights", "steps whose window lies beyond the source have no weights: rows of zeros",
                  {**USUAL, "window": 2}, source=4, target=9)  # fmt: skip
    yield watched("layers/weights", "of the top layer", {**USUAL, "layers": 2}, PRECISE)
    yield watched("repeated/weights", "of each call its own", dtypes=PRECISE, calls=others)


def greedy() -> Iterator[Case]:
    """Translations, token by token."""
    said = partial(translating, model)
    yield said(USUAL, "greedy/usual", "translations that end in different steps, or not at all", (*PRECISE, "float16"))
    yield said({**USUAL, "cell": "lstm"}, "cell/greedy", "LSTMs hand both parts of their state on while they translate",
               PRECISE)  # fmt: skip
    yield said(USUAL, "greedy/one_item", "a single source", PRECISE, items=(1,))
    yield said(USUAL, "greedy/one_step", "the first token alone", PRECISE, steps=1)
    yield said(USUAL, "greedy/again", "of each call its own", PRECISE, items=(3, 1, 3))
    yield said(USUAL, "greedy/weights", "the weights of every step beside the tokens, zeros behind the end", PRECISE,
               items=(3, 1), making=WATCHED)  # fmt: skip


def others(random: Generator) -> Sequence[Inputs]:
    """The inputs of four calls of one size, the last one again those of the first."""
    first, second = drawn(random), drawn(random)
    return [first, second, {**first, "target": second["target"]}, first]


def repeated() -> Iterator[Case]:
    """One model, called again with inputs of the same shape."""
    yield model("repeated/others", "nothing is left of the calls before", calls=others)
    yield two_models(model("repeated/other_weights", "two models of one config are there at once, each with weights of its own",
                       dtypes=PRECISE))  # fmt: skip


def layout() -> Iterator[Case]:
    """Tensors that do not lie in memory row by row."""
    yield out_of_order(model("layout/columns", "weights and tokens lie column by column, with gaps", lengths=(7, 4, 2)))


def numerics() -> Iterator[Case]:
    """Large numbers."""
    peaked = weights(USUAL, generator("peaked"), peak=300.0)
    drawn_once = weights(USUAL, generator("sharp"))
    sharp = {name: 200.0 * tensor if ".b_" in name else tensor for name, tensor in drawn_once.items()}
    yield model(
        "numerics/large_scores", "scores of which a naive exponential overflows", dtypes=PRECISE, weights=peaked
    )
    yield model(
        "numerics/saturated_gates", "gates that are open or shut, where a naive sigmoid overflows", weights=sharp
    )
