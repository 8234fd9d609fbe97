"""The cases of the contract `transformer`, and its workloads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Calls, Case, ChangedCase, Conventions
from attnsuite.cases.backends import BackendCase, ExpectedBackendCall, Script
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.expected import NearInNorm
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.model import Config, Model, Weights, token_among, two_models, without
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, dtype_of, generator, numbers
from attnsuite.cases.training import next_token_loss
from attnsuite.contracts.blocks.positional_encoding import oracle as positional_encoding
from attnsuite.contracts.models.shared_cases import (
    GREEDY,
    bad_greedies,
    bad_sentences,
    bad_tensor,
    bad_weight,
    drawn_weights,
    translating,
)
from attnsuite.contracts.models.transformer.contract import POSITIONAL, shapes
from attnsuite.contracts.models.transformer.model import Transformer, oracle
from attnsuite.contracts.models.workloads import TRAINED, TRAINED_IN_FULL, ModelWorkload, sentences
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.running_error import WithError

USUAL: Config = {
    "source_vocab": 11, "target_vocab": 13, "width": 16, "heads": 4, "ffn_width": 24, "encoder_blocks": 2,
    "decoder_blocks": 2, "decoding": "full",
}  # fmt: skip
ENCODER = {**USUAL, "decoder_blocks": 0}
SQUARE = {**USUAL, "source_vocab": 16, "target_vocab": 16, "ffn_width": 16}
"""Equal sizes: swapped axes and shared weights still fit."""
CACHED = {**USUAL, "decoding": "cached"}
WATCHED = {"need_weights": True}
LENGTHS = (7, 4, 1)


def draw_weights(config: Config, random: Generator) -> Weights:
    """Weights that peak the attention, and make every block matter."""
    return drawn_weights(shapes(config), random)


def _large_scores(config: Config, random: Generator) -> Weights:
    """Weights for scores of tens of thousands in the first head and of billions in the others, of either sign."""
    sizes = np.where(np.arange(config["width"]) < config["width"] // config["heads"], 3e4, 3e10)
    weights = draw_weights(config, random)
    return {name: tensor * (sizes if name.endswith("w_query") else 1.0) for name, tensor in weights.items()}


def draw(
    random: Generator, *, config: Config = USUAL, batch: int = 3, source: int = 7, target: int = 5,
    lengths: Sequence[int] | None = None,
) -> Inputs:  # fmt: skip
    """Tokens, and lengths; the first length is that of the source."""
    inputs = {
        "source": random.integers(config["source_vocab"], size=(batch, source)),
        "lengths": np.array(lengths) if lengths else np.append(source, random.integers(1, source + 1, size=batch - 1)),
        "target": random.integers(config["target_vocab"], size=(batch, target)),
    }
    if not config["decoder_blocks"]:
        del inputs["target"]
    return inputs


model = Model(oracle, Transformer(), draw_weights, draw, POSITIONAL, USUAL)


def cases() -> list[Case]:
    """All cases, the plainest first."""
    other_weights = model("plain/other_weights", "two models of one config with different weights", dtypes=PRECISE)
    strides = model("plain/strides", "tokens and weights with reversed axes and gaps", dtypes=PRECISE, lengths=LENGTHS)
    square: dict[str, Any] = {"batch": 4, "source": 4, "target": 4}
    return [
        model("plain/usual", "two blocks each, sources of several lengths", lengths=LENGTHS),
        model("plain/square", "as many items and tokens as heads, vocabularies as large as the width", SQUARE,
            **square),
        two_models(other_weights),
        out_of_order(strides),
        *documented(),
        model("encoder/usual", "the states of every position, padded ones too", ENCODER, lengths=LENGTHS),
        model("encoder/no_blocks", "embeddings and positions only", {**ENCODER, "encoder_blocks": 0}, PRECISE),
        *padding(),
        *cached(),
        *sizes(),
        *weights(),
        *greedy(),
        *backend(),
        *bad_input(),
    ]  # fmt: skip


def padding() -> list[Case]:
    """Lengths of sources."""
    low_scores = _large_scores(USUAL, generator("padding/low_scores"))
    return [
        model("padding/none", "whole sources", lengths=(7, 7, 7)),
        model("padding/one_item", "a single padded source", dtypes=PRECISE, batch=1, lengths=(4,)),
        model("padding/low_scores", "visible scores below −10⁹, a usual fill value", dtypes=PRECISE, weights=low_scores,
            lengths=(7, 1, 2)),
    ]  # fmt: skip


def cached() -> list[Case]:
    """Decoding token by token."""
    return [
        model("cached/usual", "the logits of the whole target", CACHED, lengths=LENGTHS),
        model("cached/long", "100 steps of a single item", CACHED, batch=1, target=100),
    ]


def sizes() -> list[Case]:
    """One model with batches and lengths of many sizes."""

    def several(random: Generator) -> Sequence[Inputs]:
        batches = product((1, 7), (1, 5, 33, 128))
        return [draw(random, batch=batch, source=length, target=length) for batch, length in batches]

    far_positions = model("sizes/far", "6000 positions: beyond usual tables and half-precision angles",
        {**ENCODER, "encoder_blocks": 0}, batch=1, source=6000)  # fmt: skip
    return [
        model("sizes/again", "other tokens, then other lengths in the same tensors", calls=three_calls,
            same_storage=True),
        model("sizes/several", "batches of 1 and 7, lengths of 1, 5, 33 and 128", calls=several),
        model("sizes/long", "sources beyond 128 tokens, targets beyond 256", batch=1, source=150, target=300),
        FarPositions(far_positions),
    ]  # fmt: skip


def three_calls(random: Generator) -> Sequence[Inputs]:
    """Other tokens in the second call, other lengths in the third."""
    first, second = draw(random, lengths=LENGTHS), draw(random, lengths=LENGTHS)
    return [first, second, {**second, "lengths": np.array([2, 6, 7])}]


class FarPositions(ChangedCase):
    """Embeddings and positions without blocks: the tolerance includes the errors of the angles."""

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[NearInNorm, ...]:
        (expected,), precision = self.base.expected(calls, conventions), PRECISIONS[dtype_of(calls[0])]
        angles = positional_encoding(WithError.exact(np.zeros(expected.value.shape), precision)).bound
        return (replace(expected, allowed=expected.allowed + np.sqrt((angles**2).sum(-1))),)


def weights() -> list[Case]:
    """Returned attention weights."""

    def again(random: Generator) -> Sequence[Inputs]:
        return [*three_calls(random)[::2], draw(random, batch=1)]

    watched = partial(model, factory_options=WATCHED)
    return [
        watched("weights/usual", "every layer and head, under padding and the causal mask", lengths=LENGTHS),
        watched("weights/again", "three calls", dtypes=PRECISE, calls=again),
        watched("weights/cached_again", "three calls, token by token", CACHED, PRECISE, calls=again),
    ]


def greedy() -> list[Case]:
    """Greedy translation."""
    tokens, half = partial(translating, model), (*PRECISE, "float16")
    return [
        tokens(USUAL, "greedy/usual", "translations that end in different steps, or never", half),
        tokens(CACHED, "greedy/cached", "the same with a cache", half),
        tokens(CACHED, "greedy/cached_again", "three calls with a cache", PRECISE, items=(3, 1, 3)),
        tokens(USUAL, "greedy/weights", "the weights of every step, zeros behind the end", PRECISE,
            factory_options=WATCHED),
        tokens(CACHED, "greedy/cached_weights", "two calls with a cache", PRECISE, items=(3, 1),
            factory_options=WATCHED),
    ]  # fmt: skip


def backend() -> Iterator[BackendCase]:
    """A backend that records how it is called."""
    cases = (
        model("plug/called", "called in every layer, for all heads, in the weights' dtype", lengths=LENGTHS),
        model("cached/plugged", "called when decoding token by token", CACHED, PRECISE, lengths=LENGTHS),
        model("plug/whole", "whole sources need no mask", dtypes=PRECISE, lengths=(7, 7, 7)),
        model("plug/weights", "the backend's weights are read off it", dtypes=PRECISE, lengths=LENGTHS,
            factory_options=WATCHED),
    )  # fmt: skip
    return (BackendCase(case, scripts) for case in cases)


def scripts(call: Call, first: Call) -> list[Script]:
    """The expected calls: the encoder's, then the decoder's for the whole target, or token by token.

    If weights are requested, the calls that read them follow each call.
    """
    config = first.config or {}
    lengths, source = call.tensors["lengths"].numpy(), call.tensors["source"].shape[1]
    within = np.arange(source) < lengths[:, None, None, None]  # b 1 1 s
    attends = partial(_attends, len(lengths), config["heads"], config["width"], dtype_of(first))
    encoder = [attends(source, source, "padding", within)] * config["encoder_blocks"]
    if "target" not in call.tensors:
        return [encoder]
    cross = partial(attends, keys=source, hides="padding", may_attend=within)
    length, blocks = call.tensors["target"].shape[1], config["decoder_blocks"]
    causal = attends(length, length, "what comes after a token", np.tri(length, dtype=bool))
    all_calls = [*encoder, *[causal, cross(length)] * blocks]
    if call.need_weights:
        return [[again for call in all_calls for again in [call] * (1 + -(-call.key[2] // call.value[3]))]]
    if config["decoding"] != "cached":
        return [all_calls]
    steps = [attends(1, step + 1, spare_keys=True) for step in range(length)]
    return [all_calls, [*encoder, *(call for step in steps for _ in range(blocks) for call in (step, cross(1)))]]


def _attends(
    items: int, heads: int, width: int, dtype: str, queries: int, keys: int, hides: str = "",
    may_attend: Array | None = None, spare_keys: bool = False,
) -> ExpectedBackendCall:  # fmt: skip
    query, key = ((items, heads, rows, width // heads) for rows in (queries, keys))
    return ExpectedBackendCall(query, key, key, dtype, hides, may_attend, spare_keys=spare_keys)


def bad_input() -> list[BadInputCase]:
    """Weights, configs and inputs that must raise an error."""
    zeros = partial(np.zeros, dtype=np.int64)
    no_target: dict[str, Any] = {"calls": lambda random: [draw(random, config=ENCODER)]}
    cached_target = {"config": CACHED, "inputs": {"target": token_among(5, -1)}}
    return [
        *model.bad_input(
            *bad_greedies(),
            ("greedy_encoder", "translation by an encoder",
                {"config": ENCODER, "bad_factory_options": {"greedy": GREEDY}}),
            **no_target,
        ),
        *model.bad_input(
            ("missing", "weights without encoder.1.ffn.w2", {"bad_weights": without("encoder.1.ffn.w2")}),
            bad_weight("extra", "weights with an unexpected encoder.2.ffn.w2", "encoder.2.ffn.w2", np.zeros((24, 16))),
            bad_weight("misshapen", "a transposed w_logits", "w_logits", np.zeros((13, 16))),
            bad_weight("narrow", "an embedding of width 15", "source_embedding", np.zeros((11, 15))),
            bad_weight("one_bias", "a bias of 1, which would broadcast", "b_logits", np.zeros(1)),
            bad_weight("rows", "an embedding of 22 rows for 11 tokens", "source_embedding", np.zeros((22, 16))),
            bad_weight("integers", "a bias of integers", "b_logits", zeros(13)),
            bad_weight("dtypes", "a bias of float64 with weights of float32", "b_logits", torch.zeros(13).double()),
            ("heads", "3 heads for a width of 16", {"config": {**USUAL, "heads": 3}}),
            ("odd_width", "an odd width of 15", {"config": {**USUAL, "width": 15, "heads": 5}}),
            *bad_sentences(),
            bad_tensor("one_target", "1 target for 3 sources", "target", zeros((1, 5))),
            ("cached_target", "the token −1, decoded with a cache", cached_target),
            ("no_decoder", "a decoder's weights without a decoder", {**no_target, "bad_config": {"decoder_blocks": 0}}),
            ("no_target", "a decoder without a target", no_target),
            ("target", "a target without a decoder", {"config": ENCODER, "inputs": {"target": zeros((3, 5))}}),
            lengths=LENGTHS,
        ),
    ]  # fmt: skip


def documented() -> Iterator[Case]:
    """The documents' examples. Numbers in place of tokens become tables of embeddings."""
    for example in documents.examples_of("transformer", kind="shape"):
        yield _shaped(example)
    for example in documents.examples_of("transformer", kind="values"):
        if "x" in example.inputs:
            yield from (_numbers(example, quantity) for quantity in WITHOUT if quantity in example.expected)
    yield from _weights_of_a_sentence(documents.examples()["doc-004/11.7.6-attention-shapes"])


def _shaped(example: Excerpt) -> DocumentedShape:
    """An encoder, or a decoder's block, whose states are seen through logits of its own width."""
    inputs, parameters = example.inputs, example.parameters
    decodes, width = parameters["part"].startswith("decoder"), parameters["num_hiddens"]
    sizes = (parameters.get("vocab_size", 2), width, width, parameters["num_heads"], parameters["ffn_num_hiddens"])
    config = dict(zip(USUAL, (*sizes, parameters.get("num_blks", 1), int(decodes), "full"), strict=True))
    batch, length = (inputs.get("token_shape") or inputs["x_shape"])[:2]
    lengths = np.array(inputs.get("valid_lens") or inputs["encoder_valid_lens"])
    tokens = {name: np.ones((batch, length), np.int64) for name in ("source", "target")[: 1 + decodes]}
    case = model.with_inputs(*example.named(), config, {**tokens, "lengths": lengths})
    return DocumentedShape(case, example.at(), example.output_shape)


STEPS = 9
"""Tokens of a padded sentence. The document gives shapes in words, without this number."""


def _weights_of_a_sentence(example: Excerpt) -> Iterator[DocumentedShape]:
    """The weights of every block for one sentence, stacked as in the document: blocks, heads, steps, steps."""
    blocks, sizes = example.parameters["num_blks"], {**example.parameters, "num_steps": STEPS}
    config = {**USUAL, "heads": sizes["num_heads"], "encoder_blocks": blocks, "decoder_blocks": blocks}
    words = len(example.inputs["sentence"].split()) + 1  # and the end token
    unusual: dict[str, Any] = {"source": STEPS, "target": STEPS, "lengths": (words,), "factory_options": WATCHED}
    names = {
        "encoder_self": "encoder.{}.attention",
        "decoder_self": "decoder.{}.self_attention",
        "encoder_decoder": "decoder.{}.cross_attention",
    }
    for quantity, name in names.items():
        shape = [sizes[size] for size in example.expected[quantity]]
        stacked = partial(
            lambda names, _, weights: np.stack([weights[name][0] for name in names]),
            [name.format(number) for number in range(blocks)],
        )
        case = model(*example.named(quantity), config, batch=1, **unusual)
        yield DocumentedShape(case, example.at(quantity), shape, stacked)


WITHOUT: Mapping[str, tuple[str, ...]] = {
    "output": (),
    "after_attention": ("ffn",),
    "after_self_attention": ("cross_attention", "ffn"),
    "after_cross_attention": ("ffn",),
}
"""By quantity of a block, the later steps whose weights are 0, so that they only normalise it again."""


def _numbers(example: Excerpt, quantity: str) -> DocumentedNumbers:
    """One block with the example's weights; its input has a row for each position, minus the position's encoding."""
    inputs, decodes = example.inputs, example.parameters["part"].startswith("decoder")
    x, memory = numbers(inputs["x"]), numbers(inputs.get("encoder_outputs", inputs["x"]))
    width, inner = x.shape[-1], numbers(inputs["w1"]).shape[-1]
    sizes = (memory.shape[1], max(width, x.shape[1]), width, example.parameters["num_heads"], inner)
    config = dict(zip(USUAL, (*sizes, int(not decodes), int(decodes), "full"), strict=True))
    weights = _weights_of_block(config, inputs, decodes)
    weights["source_embedding"] = _before_positions(memory)
    for name in weights:
        if name.split(".")[2:3] and name.split(".")[2] in WITHOUT[quantity]:
            weights[name] = np.zeros_like(weights[name])
    lengths = np.array(inputs.get("encoder_valid_lens") or inputs["valid_lens"])
    tokens = {"source": np.arange(memory.shape[1])[None], "lengths": lengths}
    if decodes:
        weights["target_embedding"][: x.shape[1]] = _before_positions(x)
        weights["w_logits"][:, :width] = np.eye(width)
        tokens["target"] = np.arange(x.shape[1])[None]
    case, printed = model.with_inputs(*example.named(quantity), config, tokens, weights), example.expected[quantity]
    for _ in WITHOUT[quantity]:
        centred = numbers(printed) - numbers(printed).mean(-1, keepdims=True)
        printed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)  # as the norms of later steps do
    return DocumentedNumbers(case, example.gives(quantity, printed), lambda output: output[..., :width])


def _weights_of_block(config: Config, inputs: Any, decodes: bool) -> dict[str, Array]:
    """The example's weights of its block; all other weights are 0, and norms 1."""
    weights = {
        tensor: np.ones(shape) if tensor.endswith("weight") else np.zeros(shape)
        for tensor, shape in shapes(config).items()
    }
    block = "decoder.0" if decodes else "encoder.0"
    for attention in ("self_attention", "cross_attention") if decodes else ("attention",):
        maps = inputs[attention] if decodes else inputs
        for role in ("w_query", "w_key", "w_value", "w_output"):
            weights[f"{block}.{attention}.{role}"] = numbers(maps[role])
    return weights | {f"{block}.ffn.{role}": numbers(inputs[role]) for role in ("w1", "b1", "w2", "b2")}


def _before_positions(x: Array) -> Array:
    """Rows, l d, that become x, 1 l d, when they are scaled and their positions are added."""
    positions = positional_encoding(WithError.exact(np.zeros(x.shape), PRECISIONS["float64"]))
    rows: Array = (x - positions.value)[0] / math.sqrt(x.shape[-1])
    return rows


# Workloads

TRANSLATOR: Config = {**USUAL, "source_vocab": 200, "target_vocab": 200, "width": 256, "ffn_width": 64}
"""The documents' English–French translator; its vocabulary is not given."""


def workloads() -> list[ModelWorkload]:
    """The documents' translator, forward and in training."""
    sizes, loss = "2 + 2 blocks of width 256, 4 heads", next_token_loss
    translator = partial(ModelWorkload, model=model, config=TRANSLATOR, shapes=shapes, inputs=sentences, flops=_flops,
        sizes=sizes, learns=loss)  # fmt: skip
    ten, long = "ten words a sentence, as the documents train it", "longer sentences, every second one padded"
    return [
        translator(name="translator/10", why=ten, batch=128, length=10, profiles=TRAINED),
        translator(name="translator/128", why=long, batch=8, length=128, profiles=TRAINED_IN_FULL),
    ]


def _flops(config: Config, length: int) -> float:
    """Of one item, all its positions computed: products with weights, and two products of attention."""
    width, inner = config["width"], config["ffn_width"]
    attention = 2.0 * length * 4 * width * width + 4.0 * length * length * width
    network = 2.0 * length * 2 * width * inner
    blocks = config["encoder_blocks"] * (attention + network) + config["decoder_blocks"] * (2 * attention + network)
    return float(blocks + 2.0 * length * width * config["target_vocab"])
