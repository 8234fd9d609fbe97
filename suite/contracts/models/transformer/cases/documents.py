"""The documents' examples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from suite.asking.model import Posed, Printed, Shaped
from suite.asking.question import numbers
from suite.contracts.blocks.positional_encoding.oracle import positional_encoding
from suite.contracts.models.transformer.cases.draws import KIND, Array
from suite.contracts.models.transformer.contract import shapes
from suite.judging.precision import PRECISIONS
from suite.judging.rounded import Rounded
from suite.sources import documents


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
