"""The cases of the contract `seq2seq_attention`, and its workloads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.documented import DocumentedShape
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.model import Config, Model, Weights, two_models, without
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, generator
from attnsuite.cases.training import next_token_loss
from attnsuite.contracts.models.seq2seq_attention.contract import GATES, POSITIONAL, shapes
from attnsuite.contracts.models.seq2seq_attention.model import Recurrent, oracle
from attnsuite.contracts.models.shared_cases import bad_greedies, bad_sentences, bad_tensor, bad_weight, translating
from attnsuite.contracts.models.workloads import TRAINED, ModelWorkload, sentences
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt

USUAL: Config = {
    "source_vocab": 11, "target_vocab": 13, "embedding": 6, "hidden": 8, "layers": 1, "score": "additive",
    "cell": "gru", "window": None,
}  # fmt: skip
SQUARE = {**USUAL, "source_vocab": 8, "target_vocab": 8, "embedding": 8}
"""Equal sizes: swapped axes and shared weights still fit."""
WATCHED = {"need_weights": True}


def draw_weights(config: Config, random: Generator, peak: float = 4.0) -> Weights:
    """Weights that peak the attention, and make every gate matter."""

    def tensor(name: str, shape: tuple[int, ...]) -> Array:
        size = peak / math.sqrt(shape[0]) if name.endswith("w_score") else 0.5
        if len(shape) == 2:
            size = 1.0 if name.endswith("embedding") else 1.5 / math.sqrt(shape[0])
        return size * random.normal(size=shape)

    return {name: tensor(name, shape) for name, shape in shapes(config).items()}


def draw(
    random: Generator, *, config: Config = USUAL, batch: int = 3, source: int = 7, target: int = 5,
    lengths: Sequence[int] | None = None,
) -> Inputs:  # fmt: skip
    """Tokens, and lengths, by default those of whole sources."""
    return {
        "source": random.integers(config["source_vocab"], size=(batch, source)),
        "lengths": np.array(lengths or [source] * batch),
        "target": random.integers(config["target_vocab"], size=(batch, target)),
    }


model = Model(oracle, Recurrent(), draw_weights, draw, POSITIONAL, USUAL)
watched = partial(model, factory_options=WATCHED)


def usual(**changed: Any) -> Config:
    """The usual config with some changes."""
    return {**USUAL, **changed}


def batches_of_3_and_1(name: str, why: str, **changed: Any) -> Case:
    """Three items of several lengths, then one."""

    def inputs(random: Generator) -> Sequence[Inputs]:
        return [draw(random, lengths=(2, 7, 4)), draw(random, batch=1, lengths=(3,))]

    return model(name, why, usual(**changed), calls=inputs)


def four_calls(random: Generator) -> Sequence[Inputs]:
    """The inputs of four calls of one size; the last call repeats the first."""
    first, second = draw(random), draw(random)
    return [first, second, {**first, "target": second["target"]}, first]


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        model("plain/usual", "sources longer than targets, several items"),
        *documented(),
        *attention(),
        *cells(),
        *sizes(),
        *weights(),
        *greedy(),
        *bad_input(),
    ]


def attention() -> list[Case]:
    """Lengths, scores and windows."""

    def again(random: Generator) -> Sequence[Inputs]:
        first = draw(random, lengths=(7, 4, 2))
        return [first, {**first, "lengths": np.array([3, 7, 5])}]

    low_scores = draw_weights(USUAL, generator("far apart"), peak=1e11)
    return [
        model("lengths/again", "other lengths of the same source", calls=again),
        model("lengths/low_scores", "visible scores below −10⁹, a usual fill value", dtypes=PRECISE, weights=low_scores,
            lengths=(1, 1, 2)),
        model("score/scaled_dot", "dot products divided by √d", usual(score="scaled_dot")),
        batches_of_3_and_1("score/dot_window", "dot products in a window", score="dot", window=1),
        batches_of_3_and_1("score/dot_lengths", "dot products with hidden keys", score="dot"),
        model("window/usual", "three positions, fewer at the source's ends", usual(window=1), target=7),
        model("window/zero", "the step's own position", usual(window=0)),
        batches_of_3_and_1("window/lstm", "an LSTM with a window", cell="lstm", window=2),
        batches_of_3_and_1("window/scaled_dot", "scaled dot products, windows beyond a length", score="scaled_dot",
            window=1),
    ]  # fmt: skip


def cells() -> list[Case]:
    """LSTMs, and several layers."""
    return [
        model("cell/lstm", "four gates, and two parts of a state", usual(cell="lstm")),
        model("cell/lstm_layers", "each layer hands on its own memory cell", usual(cell="lstm", layers=2)),
        batches_of_3_and_1("cell/lstm_lengths", "LSTMs run over the padding, which gives no keys", cell="lstm",
            layers=2),
        model("layers/square", "two layers of one size, which could share their weights", {**SQUARE, "layers": 2},
            PRECISE),
        model("layers/three", "each layer begins with its own state", usual(layers=3)),
    ]  # fmt: skip


def sizes() -> list[Case]:
    """Batches, lengths, repeated calls, memory layouts and large numbers."""

    def several(random: Generator) -> Sequence[Inputs]:
        return [draw(random, batch=batch, source=source, target=3) for batch in (7, 1) for source in (1, 5, 33)]

    other_weights = model("repeated/other_weights", "two models of one config with different weights", dtypes=PRECISE)
    peaked = draw_weights(USUAL, generator("peaked"), peak=300.0)
    saturated = {name: 200.0 * w if ".b_" in name else w for name, w in draw_weights(USUAL, generator("sharp")).items()}
    return [
        model("sizes/several", "batches of 7 and 1, sources of 1, 5 and 33", calls=several),
        model("sizes/long_target", "19 steps", batch=2, target=19),
        two_models(other_weights),
        out_of_order(model("layout/columns", "weights and tokens with reversed axes and gaps", lengths=(7, 4, 2))),
        model("numerics/large_scores", "scores whose exponentials overflow", dtypes=PRECISE, weights=peaked),
        model("numerics/saturated_gates", "saturated gates, where a naive sigmoid overflows", weights=saturated),
    ]


def weights() -> list[Case]:
    """Returned attention weights."""
    beyond: dict[str, Any] = {"source": 4, "target": 9}
    return [
        watched("weights/usual", "every step and item", lengths=(2, 7, 4)),
        watched("weights/square", "as many items as steps and positions", SQUARE, PRECISE, batch=8, source=8, target=8),
        watched("score/weights", "scaled dot products", usual(score="scaled_dot"), lengths=(2, 7, 4)),
        watched("window/weights", "rows of zeros for windows beyond the source", usual(window=2), **beyond),
        watched("repeated/weights", "four calls", dtypes=PRECISE, calls=four_calls),
    ]


def greedy() -> list[Case]:
    """Greedy translation."""
    tokens = partial(translating, model)
    return [
        tokens(USUAL, "greedy/usual", "translations that end in different steps, or never", (*PRECISE, "float16")),
        tokens(usual(cell="lstm"), "cell/greedy", "LSTMs keep both parts of their state", PRECISE),
        tokens(USUAL, "greedy/again", "three calls", PRECISE, items=(3, 1, 3)),
        tokens(USUAL, "greedy/weights", "the weights of every step, zeros behind the end", PRECISE, items=(3, 1),
            factory_options=WATCHED),
    ]  # fmt: skip


def bad_input() -> list[BadInputCase]:
    """Configs, weights and inputs that must raise an error."""

    def without_target(random: Generator) -> Sequence[Inputs]:
        return [{name: array for name, array in draw(random).items() if name != "target"}]

    def bad_config(what: str, why: str, **changed: Any) -> Row:
        return what, why, {"bad_config": changed}

    zeros = partial(np.zeros, dtype=np.int64)
    return [
        *model.bad_input(
            ("missing", "weights without decoder.0.b_hidden", {"bad_weights": without("decoder.0.b_hidden")}),
            bad_weight("extra", "weights of a second layer, expected one", "encoder.1.w_input", np.zeros((8, 24))),
            bad_weight("transposed", "a transposed w_logits", "w_logits", np.zeros((13, 8))),
            bad_weight("gates", "weights for four gates, expected three", "encoder.0.w_hidden", np.zeros((8, 32))),
            bad_weight("narrow_input", "a decoder that reads 8 numbers of 14", "decoder.0.w_input", np.zeros((8, 24))),
            bad_weight("one_bias", "a bias of 1, which would broadcast", "b_logits", np.zeros(1)),
            bad_weight("more_rows", "12 embeddings for a vocabulary of 11", "source_embedding", np.zeros((12, 6))),
            bad_weight("dtypes", "a bias of integers", "b_logits", zeros(13)),
            bad_weight("half_bias", "a bias in float16 with weights in float32", "b_logits", torch.zeros(13).half()),
            bad_config("score", "an unknown score", score="cosine"),
            bad_config("cell", "an unknown cell", cell="rnn"),
            bad_config("layers", "no layers", layers=0),
            bad_config("window", "a window of −1", window=-1),
            *bad_sentences(),
            bad_tensor("one_source", "1 source for 3 targets", "source", zeros((1, 7))),
        ),
        *model.bad_input(*bad_greedies(), calls=without_target),
    ]


def documented() -> Iterator[Case]:
    """The documents' shapes. Steps with numbers are cases of additive attention."""
    for example in documents.examples_of("seq2seq_attention", kind="shape"):
        shaped = model.with_inputs(*example.named(), *_config_and_tokens(example))
        yield DocumentedShape(shaped, example.at(), example.output_shape)
        yield from _states(example)


def _config_and_tokens(example: Excerpt) -> tuple[Config, Inputs]:
    """The example's config, and tokens of one value; the whole source is visible."""
    parameters, (batch, length) = example.parameters, example.inputs["token_shape"]
    config = {
        **USUAL, "source_vocab": parameters["vocab_size"], "target_vocab": parameters["vocab_size"],
        "embedding": parameters["embed_size"], "hidden": parameters["num_hiddens"], "layers": parameters["num_layers"],
    }  # fmt: skip
    tokens = np.full((batch, length), example.inputs["token_value"])
    return config, {"source": tokens, "lengths": np.full(batch, length), "target": tokens}


def _states(example: Excerpt) -> Iterator[DocumentedShape]:
    """The decoder's state, through logits of its width, and the weights of all steps."""
    config, inputs = _config_and_tokens(example)
    config = {**config, "target_vocab": config["hidden"]}
    drawn = dict(draw_weights(config, generator(example.id)))
    drawn |= {"w_logits": np.eye(config["hidden"]), "b_logits": np.zeros(config["hidden"])}
    quantity = "hidden_state_layer_shape"
    case = model.with_inputs(*example.named(quantity), config, inputs, drawn)
    yield DocumentedShape(case, example.at(quantity), example.expected[quantity], lambda output, weights: output[:, -1])
    quantity, (batch, steps, keys) = "step_weights_shape", example.derived["step_weights_shape"]
    case = model.with_inputs(*example.named(quantity), *_config_and_tokens(example), factory_options=WATCHED)
    shape = (batch, steps * example.derived["num_steps"], keys)
    yield DocumentedShape(case, example.at(quantity), shape, lambda output, weights: weights["attention"])


# Workloads

TRANSLATOR = usual(source_vocab=200, target_vocab=200, embedding=256, hidden=256, layers=2)
"""The documents' English–French translator; its vocabulary is not given."""


def workloads() -> list[ModelWorkload]:
    """The documents' translator, forward and in training."""
    why, sizes = "ten words a sentence, as the documents train it", "2 + 2 layers of width 256, additive scores"
    translator = ModelWorkload(
        name="translator/10", why=why, model=model, config=TRANSLATOR, shapes=shapes, inputs=sentences, batch=128, length=10,
        flops=_flops, sizes=sizes, profiles=TRAINED, learns=next_token_loss
    )  # fmt: skip
    return [translator]


def _flops(config: Config, length: int) -> float:
    """Of one item: products with weights, and at each step those of the scores and the weighted sum."""
    width, embedding = float(config["hidden"]), float(config["embedding"])
    gates = GATES[config["cell"]] * width

    def stack(first: float) -> float:
        return 2 * gates * (first + width + (float(config["layers"]) - 1) * 2 * width)

    scored = 2.0 * width * width + 4.0 * length * width  # the query's map, then scores and the sum of values
    step = stack(embedding) + stack(width + embedding) + scored + 2.0 * width * float(config["target_vocab"])
    return length * (step + 2.0 * width * width)  # and the map of each key
