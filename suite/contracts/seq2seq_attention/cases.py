"""The cases of the contract `seq2seq_attention`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from suite import documents
from suite.contracts import base
from suite.contracts.model import (
    Config,
    Kind,
    Posed,
    Printed,
    Refused,
    Shaped,
    Weights,
    changed,
    instead,
    tokens_with,
    without,
)
from suite.contracts.question import Generator, Inputs, generator, numbers
from suite.contracts.seq2seq_attention import oracle
from suite.contracts.seq2seq_attention.contract import POSITIONAL, shapes
from suite.contracts.seq2seq_attention.deviations import Recurrent

Array = np.ndarray[Any, Any]
Draw = Callable[[Generator], Sequence[Inputs]]

USUAL: Config = {
    "source_vocab": 11,
    "target_vocab": 13,
    "embedding": 6,
    "hidden": 8,
    "layers": 1,
    "score": "additive",
    "cell": "gru",
    "window": None,
}
ONE_STEP = {**USUAL, "source_vocab": 4, "target_vocab": 7, "embedding": 5, "hidden": 12}
COMBINED = {**USUAL, "source_vocab": 4, "target_vocab": 4, "embedding": 2, "hidden": 4, "score": "dot"}
SINGLE = ("float64", "float32")
"""Where rounding is too coarse in half types, or the eager model's one vector too little to judge by."""
SHUT = -100.0
"""A gate's bias with which it is zero in every dtype."""
SATURATED = 20.0
"""Where tanh is 1 in every dtype."""
SMALL = 2.0**-20
"""A factor that brings numbers to where tanh is its argument."""


def cases() -> list[base.Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *lengths(), *score(), *cell(), *window(), *layers(), *sizes(), *repeated(),
            *numerics(), *bad_input()]  # fmt: skip


def weights(config: Config, random: Generator, peak: float = 4.0) -> Weights:
    """Weights of which attention is peaked, and no gate without effect."""

    def tensor(name: str, shape: tuple[int, ...]) -> Array:
        size = peak / math.sqrt(shape[0]) if name.endswith("w_score") else 0.5
        if len(shape) == 2:
            size = 1.0 if name.endswith("embedding") else 1.5 / math.sqrt(shape[0])
        return size * random.normal(size=shape)

    return {name: tensor(name, shape) for name, shape in shapes(config).items()}


KIND = Kind(oracle.seq2seq_attention, Recurrent(), weights, POSITIONAL)


def drawn(
    random: Generator,
    *,
    config: Config = USUAL,
    batch: int = 3,
    source: int = 7,
    target: int = 5,
    lengths: Sequence[int] | None = None,
) -> Inputs:
    """Tokens; all of a source may be attended to where no lengths are given."""
    return {
        "source": random.integers(config["source_vocab"], size=(batch, source)),
        "lengths": np.array(lengths or [source] * batch),
        "target": random.integers(config["target_vocab"], size=(batch, target)),
    }


def posed(name: str, why: str, config: Config = USUAL, **unusual: Any) -> Posed:
    """A question with one call."""
    return Posed(name, why, KIND, config, lambda random: [drawn(random, config=config, **unusual)])


def plain() -> Iterator[Posed]:
    """Additive scores and a GRU of one layer."""
    square = {**USUAL, "source_vocab": 8, "target_vocab": 8, "embedding": 8}
    yield posed("plain/usual", "sources longer than targets, several items")
    yield posed("plain/long_target", "a target longer than the source", source=3, target=9)
    yield posed(
        "plain/square", "all sizes equal: axes that were swapped still fit", square, batch=8, source=8, target=8
    )


def lengths() -> Iterator[Posed]:
    """Sources that may be attended to in part."""

    def more_padding(random: Generator) -> Sequence[Inputs]:
        first = drawn(random, lengths=(3, 5, 1))
        return [first, {**first, "source": np.pad(first["source"], ((0, 0), (0, 2)))}]

    def again(random: Generator) -> Sequence[Inputs]:
        first = drawn(random, lengths=(7, 4, 2))
        return [first, {**first, "lengths": np.array([3, 7, 5])}]

    def short(random: Generator) -> Sequence[Inputs]:
        return [drawn(random, lengths=(1, 1, 2))]

    far_apart = weights(USUAL, generator("far apart"), peak=1e5)
    yield posed("lengths/several", "each item has a length of its own", lengths=(2, 7, 4))
    yield posed("lengths/ones", "nothing but the first position may be attended to", lengths=(1, 1, 1))
    yield posed("lengths/window", "windows that reach beyond a length", {**USUAL, "window": 2}, lengths=(4, 7, 5))
    yield Posed("lengths/more_padding", "the encoder runs over the padding, which gives no keys but changes its final state",
                KIND, USUAL, more_padding)  # fmt: skip
    yield Posed("lengths/again", "other lengths of the same source", KIND, USUAL, again)
    yield Posed("lengths/low_scores", "scores of what may be attended to lie below −10,000, where some put what may not",
                KIND, USUAL, short, far_apart, SINGLE)  # fmt: skip


def score() -> Iterator[Posed]:
    """Dot products in place of additive scores."""
    yield posed("score/dot", "as they are", {**USUAL, "score": "dot"})
    yield posed("score/scaled_dot", "divided by √d", {**USUAL, "score": "scaled_dot"})


def cell() -> Iterator[Posed]:
    """LSTMs in place of GRUs."""
    yield posed("cell/lstm", "four gates, and two parts of a state", {**USUAL, "cell": "lstm"})
    yield posed("cell/lstm_layers", "each layer hands on its own memory cell", {**USUAL, "cell": "lstm", "layers": 2})


def window() -> Iterator[Posed]:
    """Attention to positions around the step alone."""
    yield posed("window/usual", "three positions, fewer at the source's ends", {**USUAL, "window": 1}, target=7)
    yield posed("window/zero", "the step's own position", {**USUAL, "window": 0})
    yield posed("window/beyond", "windows that lie beyond the source give no context", {**USUAL, "window": 2},
                source=4, target=9)  # fmt: skip
    yield posed("window/all", "a window wider than the source", {**USUAL, "window": 20})


def layers() -> Iterator[Posed]:
    """Several layers."""
    yield posed("layers/two", "the top layer is attended to, and asks", {**USUAL, "layers": 2})
    yield posed("layers/three", "each layer begins with the state of its own", {**USUAL, "layers": 3})


def sizes() -> Iterator[Posed]:
    """One model, called with batches and lengths of many sizes."""

    def several(random: Generator) -> Sequence[Inputs]:
        return [drawn(random, batch=batch, source=source, target=3) for batch in (7, 1) for source in (1, 5, 33)]

    def one_of_each(random: Generator) -> Sequence[Inputs]:
        return [drawn(random, batch=1, source=1, target=1)]

    yield Posed("sizes/several", "batches of 7 and 1, sources of 1, 5 and 33", KIND, USUAL, several)
    yield Posed("sizes/one_of_each", "one item, one position, one step", KIND, USUAL, one_of_each, dtypes=SINGLE)
    yield posed("sizes/long_target", "many steps", batch=2, target=19)


def repeated() -> Iterator[Posed]:
    """One model, called again with inputs of the same shape."""

    def others(random: Generator) -> Sequence[Inputs]:
        first, second = drawn(random), drawn(random)
        return [first, second, {**first, "target": second["target"]}, first]

    yield Posed("repeated/others", "nothing is left of the calls before", KIND, USUAL, others)


def numerics() -> Iterator[Posed]:
    """Large numbers."""

    def usual(random: Generator) -> Sequence[Inputs]:
        return [drawn(random)]

    peaked = weights(USUAL, generator("peaked"), peak=300.0)
    drawn_once = weights(USUAL, generator("sharp"))
    sharp = {name: 200.0 * tensor if ".b_" in name else tensor for name, tensor in drawn_once.items()}
    yield Posed("numerics/large_scores", "scores of which a naive exponential overflows", KIND, USUAL, usual, peaked,
                SINGLE)  # fmt: skip
    yield Posed("numerics/saturated_gates", "gates that are open or shut, where a naive sigmoid overflows", KIND, USUAL,
                usual, sharp)  # fmt: skip


def bad_input() -> Iterator[Refused]:
    """Configs, weights and inputs that do not go together."""
    for name, why, unusual in (
        ("missing", "weights without decoder.0.b_hidden", without("decoder.0.b_hidden")),
        ("extra", "weights with encoder.1.w_input, where there is one layer", instead("encoder.1.w_input", np.zeros((8, 24)))),
        ("transposed", "w_logits of shape 13 × 8, which is transposed", instead("w_logits", np.zeros((13, 8)))),
        ("gates", "weights for four gates where there are three", instead("encoder.0.w_hidden", np.zeros((8, 32)))),
        ("narrow_input", "a decoder that reads 8 numbers, where context and embedding have 14",
         instead("decoder.0.w_input", np.zeros((8, 24)))),
        ("dtypes", "a bias of integers among weights of numbers", instead("b_logits", np.zeros(13, np.int64))),
    ):  # fmt: skip
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, drawn, unusual)
    for name, why, config in (
        ("score", "the score “cosine”, which there is not", {"score": "cosine"}),
        ("cell", "the cell “rnn”, which there is not", {"cell": "rnn"}),
        ("layers", "a model of 0 layers", {"layers": 0}),
        ("window", "a window of −1", {"window": -1}),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, drawn, unusual_config=config)
    for name, why, tensors in (
        ("source_token", "the token 11 where the vocabulary has 11", {"source": tokens_with(7, 11)}),
        ("negative_token", "the token −1", {"source": tokens_with(7, -1)}),
        ("target_token", "the token 13 where the vocabulary has 13", {"target": tokens_with(5, 13)}),
        ("length_zero", "a length of 0", {"lengths": np.array([7, 0, 1])}),
        ("length_beyond", "a length of 8 in a source of 7", {"lengths": np.array([7, 8, 1])}),
        ("lengths", "2 lengths for 3 sources", {"lengths": np.array([7, 4])}),
        ("batches", "2 targets for 3 sources", {"target": np.zeros((2, 5), np.int64)}),
        ("fractions", "lengths that are no integers", {"lengths": np.array([7.0, 4.0, 2.0])}),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, partial(changed, drawn, tensors))


def printed() -> Iterator[Posed]:
    """The documents' examples. States are given as tokens whose embeddings lead to them; the last is the query."""
    for id, example in documents.of("seq2seq_attention", kind="shape").items():
        yield _shaped(f"documents/{id}", _why(example, "shape"), example)
    step = documents.examples()["doc-004/11.4-one-step"]
    for quantity, columns in (("weights", slice(0, 3)), ("rnn_input", slice(3, 7))):
        yield Printed(
            f"documents/doc-004/11.4-one-step/{quantity}", _why(step, quantity), KIND, ONE_STEP,
            lambda _: [_four_tokens(step["inputs"]["valid_lens"])], _one_step(step["inputs"]),
            printed=step["expected"][quantity], select=partial(_columns, columns),
        )  # fmt: skip
    output, compared = documents.examples()["doc-002/output-vector"], documents.examples()["doc-002/decoder-step"]
    yield Printed(
        "documents/doc-002/output-vector/combined", _why(output, "combined"), KIND, COMBINED,
        lambda _: [_four_tokens([3])], _combined(output["inputs"]["decoder_state"], compared["inputs"]["key"]),
        printed=[[output["expected"]["combined"]]],
    )  # fmt: skip


def _why(example: dict[str, Any], quantity: str) -> str:
    return f"{example['document']}, section {example['section']}: {quantity}"


def _shaped(name: str, why: str, example: dict[str, Any]) -> Shaped:
    """Tokens of one value; all of the source may be attended to."""
    parameters, (batch, length) = example["parameters"], example["inputs"]["token_shape"]
    vocab = parameters["vocab_size"]
    config = {
        **USUAL,
        "source_vocab": vocab,
        "target_vocab": vocab,
        "embedding": parameters["embed_size"],
        "hidden": parameters["num_hiddens"],
        "layers": parameters["num_layers"],
    }
    tokens = np.full((batch, length), example["inputs"]["token_value"])
    asked = {"source": tokens, "lengths": np.full(batch, length), "target": tokens}
    return Shaped(name, why, KIND, config, lambda _: [asked], shape=tuple(example["expected"]["output_shape"]))


def _one_step(given: dict[str, Any]) -> Weights:
    """Logits that are the weights of three positions, then the recurrent cell's input: context and embedding.

    The weights are seen since each position has half a one in a place of its own, which the scores overlook.
    """
    states = np.zeros((4, 5))
    states[:3, :2], states[3, :2] = numbers(given["encoder_states"])[0], numbers(given["previous_decoder_state"])[0]
    states[:3, 2:] = np.eye(3) / 2
    read = [2, 3, 4, 0, 1, 12, 13]  # for each logit, of the cell's inputs: 12 of the context, then the embedding's
    found = _seen(ONE_STEP, states, {5 + logit: place for logit, place in enumerate(read)})
    found["w_logits"][5:] = np.diag([2, 2, 2, 1, 1, 1, 1]) / SMALL
    found["target_embedding"][0, :2] = numbers(given["input_embedding"])[0, 0]
    for name in ("w_query", "w_key"):
        found[f"attention.{name}"][:2, :3] = numbers(given[name])
    found["attention.w_score"][:3] = numbers(given["w_v"])
    return found


def _combined(state: Any, encoder_states: Any) -> Weights:
    """Logits that are the state, which the update gate keeps, and the context."""
    found = _seen(COMBINED, np.array([*encoder_states, state]), {2: 0, 3: 1})
    found["decoder.0.b_input"][4:6] = -SHUT
    found["w_logits"][:] = np.diag([1, 1, 1 / SMALL, 1 / SMALL])
    return found


def _seen(config: Config, states: Array, read: dict[int, int]) -> dict[str, Array]:
    """Weights with which token i leads the encoder to the i-th of these states.

    A decoder's unit repeats that place of its input which `read` gives it, made small; its update gate forgets.
    """
    found = {name: np.zeros(shape) for name, shape in shapes(config).items()}
    (_, width), hidden = states.shape, config["hidden"]
    with np.errstate(divide="ignore"):
        found["source_embedding"][:] = np.clip(np.arctanh(states), -SATURATED, SATURATED)
    found["encoder.0.w_input"][:, 2 * hidden : 2 * hidden + width] = np.eye(width)
    for part in ("encoder", "decoder"):
        found[f"{part}.0.b_input"][hidden : 2 * hidden] = SHUT
    for unit, place in read.items():
        found["decoder.0.w_input"][place, 2 * hidden + unit] = SMALL
    return found


def _four_tokens(valid: list[int]) -> Inputs:
    return {"source": np.arange(4)[None], "lengths": np.array(valid), "target": np.zeros((1, 1), np.int64)}


def _columns(those: slice, output: Array) -> Array:
    return output[..., those]
