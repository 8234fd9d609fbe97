"""The cases of the contract `transformer`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
    Remade,
    Shaped,
    Weights,
    changed,
    instead,
    tokens_with,
    without,
)
from suite.contracts.positional_encoding.oracle import positional_encoding
from suite.contracts.precision import PRECISIONS
from suite.contracts.question import Generator, Inputs, generator, numbers
from suite.contracts.rounded import Rounded
from suite.contracts.transformer import oracle
from suite.contracts.transformer.contract import POSITIONAL, shapes
from suite.contracts.transformer.deviations import Transformer
from suite.records import DTYPES

Array = np.ndarray[Any, Any]
Draw = Callable[[Generator], Sequence[Inputs]]

USUAL: Config = {
    "source_vocab": 11,
    "target_vocab": 13,
    "width": 16,
    "heads": 4,
    "ffn_width": 24,
    "encoder_blocks": 2,
    "decoder_blocks": 2,
    "decoding": "full",
}
ENCODER = {**USUAL, "decoder_blocks": 0}
CACHED = {**USUAL, "decoding": "cached"}
SURE = ("float64", "float32")
"""Half types are asked where there are vectors enough for the eager model's worst to be a yardstick, and not of every
config, for each is exported anew."""


def cases() -> list[base.Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *encoder(), *padding(), *cached(), *sizes(), *bad_input()]


def weights(config: Config, random: Generator) -> Weights:
    """Weights of which attention is peaked, and no block without effect."""
    return {name: _tensor(name, shape, random) for name, shape in shapes(config).items()}


def _tensor(name: str, shape: tuple[int, ...], random: Generator) -> Array:
    size = 1 / math.sqrt(shape[-1] if name.endswith("embedding") else shape[0])
    if name.endswith(("w_query", "w_key")):
        size *= 1.5
    if len(shape) == 1:
        size = 0.3
    return size * random.normal(size=shape) + ("norm" in name and name.endswith("weight"))


def faint(config: Config, random: Generator) -> Weights:
    """Weights with which ε tells: what is normalised inside a block varies by about √ε."""
    small = ("w_output", "ffn.w2", "ffn.b2", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias")
    return {name: tensor * (3e-3 if name.endswith(small) else 1.0) for name, tensor in weights(config, random).items()}


def far_apart(config: Config, random: Generator) -> Weights:
    """Weights of which scores are tens of thousands, above zero and below."""
    return {
        name: tensor * (3e4 if name.endswith("w_query") else 1.0) for name, tensor in weights(config, random).items()
    }


KIND = Kind(oracle.transformer, Transformer(), weights, POSITIONAL)


def drawn(
    random: Generator,
    *,
    config: Config = USUAL,
    batch: int = 3,
    source: int = 7,
    target: int = 5,
    lengths: Sequence[int] | None = None,
) -> Inputs:
    """Tokens, and lengths of which the first is the whole source."""
    inputs = {
        "source": random.integers(config["source_vocab"], size=(batch, source)),
        "lengths": np.array(lengths) if lengths else np.append(source, random.integers(1, source + 1, size=batch - 1)),
        "target": random.integers(config["target_vocab"], size=(batch, target)),
    }
    if not config["decoder_blocks"]:
        del inputs["target"]
    return inputs


def posed(name: str, why: str, config: Config = USUAL, dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> Posed:
    """A question with one call."""
    return Posed(name, why, KIND, config, _once(partial(drawn, config=config, **unusual)), dtypes=dtypes)


def plain() -> Iterator[Posed]:
    """Whole models."""
    yield posed("plain/usual", "two blocks each, sources of several lengths", lengths=(7, 4, 1))
    yield posed("plain/square", "sources and targets of one length, as many as there are items and heads", batch=4,
                source=4, target=4)  # fmt: skip
    yield posed("plain/one_token", "one token to read, one to write", batch=1, source=1, target=1,
                dtypes=SURE)  # fmt: skip
    yield posed("plain/wide", "eight heads, a wider network, one block and three", {**USUAL, "width": 32, "heads": 8,
                "ffn_width": 40, "encoder_blocks": 1, "decoder_blocks": 3}, SURE)  # fmt: skip
    faintly = Posed("plain/faint", "variances as small as ε, which is added to them before the root", KIND, USUAL,
                    _once(partial(drawn, lengths=(7, 4, 1))), dtypes=SURE)  # fmt: skip
    yield replace(faintly, weights=faint(USUAL, generator(faintly.name)))
    yield Remade("plain/other_weights", "a second model of one config has weights of its own", KIND, USUAL,
                 _once(drawn), dtypes=SURE)  # fmt: skip


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
                KIND, USUAL, _once(partial(drawn, lengths=(7, 1, 2))), dtypes=SURE)  # fmt: skip
    yield replace(low, weights=far_apart(USUAL, generator(low.name)))
    yield Posed("padding/other_tokens", "what stands beyond a length changes nothing", KIND, USUAL, others)


def cached() -> Iterator[Posed]:
    """Decoding token by token."""

    def twice(random: Generator) -> Sequence[Inputs]:
        return [drawn(random), drawn(random, source=4, target=6)]

    yield posed("cached/usual", "the logits are those of the whole target", CACHED, lengths=(7, 4, 1))
    yield posed("cached/one_token", "a single step", CACHED, target=1, dtypes=SURE)
    yield posed("cached/long", "more steps than a small cache holds", CACHED, target=12)
    yield Posed("cached/again", "nothing is left of the call before", KIND, CACHED, twice)


def sizes() -> Iterator[Posed]:
    """One model, called with batches and lengths of many sizes."""

    def several(random: Generator) -> Sequence[Inputs]:
        return [
            drawn(random, batch=batch, source=length, target=length) for batch in (1, 7) for length in (1, 5, 33, 128)
        ]

    def long(random: Generator) -> Sequence[Inputs]:
        return [drawn(random, batch=1, source=150, target=140)]

    def again(random: Generator) -> Sequence[Inputs]:
        return [drawn(random), drawn(random)]

    yield Posed("sizes/again", "other tokens in tensors of the same sizes", KIND, USUAL, again)
    yield Posed("sizes/several", "batches of 1 and 7, lengths of 1, 5, 33 and 128", KIND, USUAL, several)
    yield Posed("sizes/long", "positions and keys beyond the 128th", KIND, USUAL, long)


def bad_input() -> Iterator[Refused]:
    """Configs, weights and inputs that do not go together."""
    usual = partial(drawn, lengths=(7, 4, 1))
    for name, why, unusual in (
        ("missing", "weights without encoder.1.ffn.w2", without("encoder.1.ffn.w2")),
        ("extra", "weights with encoder.2.ffn.w2, which is not due", instead("encoder.2.ffn.w2", np.zeros((24, 16)))),
        ("misshapen", "w_logits of shape 13 × 16, which is transposed", instead("w_logits", np.zeros((13, 16)))),
        ("narrow", "an embedding of width 15", instead("source_embedding", np.zeros((11, 15)))),
        ("dtypes", "a bias of integers among weights of numbers", instead("b_logits", np.zeros(13, np.int64))),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, usual, unusual)
    for name, why, config in (
        ("heads", "3 heads, which do not divide the width of 16", {"heads": 3}),
        ("odd_width", "an odd width of 15", {"width": 15, "heads": 5}),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, {**USUAL, **config}, usual)
    for name, why, tensors in (
        ("source_token", "the token 11 where the vocabulary has 11", {"source": tokens_with(7, 11)}),
        ("negative_token", "the token −1", {"source": tokens_with(7, -1)}),
        ("target_token", "the token 13 where the vocabulary has 13", {"target": tokens_with(5, 13)}),
        ("length_zero", "a length of 0", {"lengths": np.array([7, 0, 1])}),
        ("length_beyond", "a length of 8 in a source of 7", {"lengths": np.array([7, 8, 1])}),
        ("lengths", "2 lengths for 3 sources", {"lengths": np.array([7, 4])}),
        ("batches", "2 targets for 3 sources", {"target": np.zeros((2, 5), np.int64)}),
        ("fractions", "lengths that are no integers", {"lengths": np.array([7.0, 4.5, 1.0])}),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, partial(changed, usual, tensors))
    target = {"target": np.zeros((3, 5), np.int64)}
    yield Refused("bad_input/no_target", "no target for a decoder", KIND, USUAL, partial(drawn, config=ENCODER))
    yield Refused(
        "bad_input/target", "a target where there is no decoder", KIND, ENCODER, partial(changed, usual, target)
    )


def printed() -> Iterator[Posed]:
    """The documents' examples. Numbers given in place of tokens pass through tables of embeddings."""
    for id, example in documents.of("transformer", kind="shape").items():
        why = f"{example['document']}, section {example['section']}: shape"
        yield _shaped(f"documents/{id}", why, example)
    for id, example in documents.of("transformer", kind="values").items():
        if "x" in example["inputs"]:
            why = f"{example['document']}, section {example['section']}: output"
            yield _literal(f"documents/{id}/output", why, example)


def _shaped(name: str, why: str, example: dict[str, Any]) -> Shaped:
    """An encoder where the example is one; a decoder's block is seen through logits of its own width."""
    inputs, parameters = example["inputs"], example["parameters"]
    decodes = parameters["part"].startswith("decoder")
    config = {
        "source_vocab": parameters.get("vocab_size", 2),
        "target_vocab": parameters["num_hiddens"],
        "width": parameters["num_hiddens"],
        "heads": parameters["num_heads"],
        "ffn_width": parameters["ffn_num_hiddens"],
        "encoder_blocks": parameters.get("num_blks", 1),
        "decoder_blocks": int(decodes),
        "decoding": "full",
    }
    batch, length = (inputs.get("token_shape") or inputs["x_shape"])[:2]
    asked = {
        "source": np.ones((batch, length), np.int64),
        "lengths": np.array(inputs.get("valid_lens") or inputs["encoder_valid_lens"]),
        "target": np.ones((batch, length), np.int64),
    }
    if not decodes:
        del asked["target"]
    return Shaped(name, why, KIND, config, lambda _: [asked], shape=tuple(example["expected"]["output_shape"]))


def _literal(name: str, why: str, example: dict[str, Any]) -> Printed:
    """One block with the example's weights; what goes in is a row for each position, less what positions add."""
    given, decodes = example["inputs"], example["parameters"]["part"].startswith("decoder")
    x, memory = numbers(given["x"]), numbers(given.get("encoder_outputs", given["x"]))
    width, inner = x.shape[-1], numbers(given["w1"]).shape[-1]
    config = {
        "source_vocab": memory.shape[1],
        "target_vocab": max(width, x.shape[1]),
        "width": width,
        "heads": example["parameters"]["num_heads"],
        "ffn_width": inner,
        "encoder_blocks": int(not decodes),
        "decoder_blocks": int(decodes),
        "decoding": "full",
    }
    found = {
        tensor: np.ones(shape) if tensor.endswith("weight") else np.zeros(shape)
        for tensor, shape in shapes(config).items()
    }
    found["source_embedding"] = _before_positions(memory)
    block = "decoder.0" if decodes else "encoder.0"
    attentions = ("self_attention", "cross_attention") if decodes else ("attention",)
    for attention in attentions:
        of = given[attention] if decodes else given
        found |= {
            f"{block}.{attention}.{role}": numbers(of[role]) for role in ("w_query", "w_key", "w_value", "w_output")
        }
    found |= {f"{block}.ffn.{role}": numbers(given[role]) for role in ("w1", "b1", "w2", "b2")}
    asked = {
        "source": np.arange(memory.shape[1])[None],
        "lengths": np.array(given.get("encoder_valid_lens") or given["valid_lens"]),
    }
    if decodes:
        found["target_embedding"][: x.shape[1]] = _before_positions(x)
        found["w_logits"][:, :width] = np.eye(width)
        asked["target"] = np.arange(x.shape[1])[None]
    return Printed(name, why, KIND, config, lambda _: [asked], found, printed=example["expected"]["output"],
                   select=lambda output: output[..., :width])  # fmt: skip


def _before_positions(x: Array) -> Array:
    """Rows that become x, 1 l d, once they are scaled and their positions are added, l d."""
    positions = positional_encoding(Rounded.exact(np.zeros(x.shape), PRECISIONS["float64"]))
    rows: Array = (x - positions.value)[0] / math.sqrt(x.shape[-1])
    return rows


def _once(draw: Callable[[Generator], Inputs]) -> Draw:
    return lambda random: [draw(random)]
