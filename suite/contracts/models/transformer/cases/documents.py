"""The documents' examples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.model import Config
from attnsuite.cases.tensors import Array, numbers
from attnsuite.contracts.blocks.positional_encoding import oracle as positional_encoding
from attnsuite.contracts.models.transformer.cases.draws import USUAL, WATCHED, model
from attnsuite.contracts.models.transformer.contract import shapes
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.rounded import Rounded


def printed() -> Iterator[Case]:
    """The documents' examples. Numbers given in place of tokens pass through tables of embeddings."""
    for example in documents.of("transformer", kind="shape"):
        yield _shaped(example)
    for example in documents.of("transformer", kind="values"):
        if "x" in example.inputs:
            yield _literal(example)
    yield from _weights_of_a_sentence(documents.examples()["doc-004/11.7.6-attention-shapes"])


def _shaped(example: Excerpt) -> DocumentedShape:
    """An encoder where the example is one; a decoder's block is seen through logits of its own width."""
    inputs, parameters = example.inputs, example.parameters
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
    lengths = np.array(inputs.get("valid_lens") or inputs["encoder_valid_lens"])
    asked = {"source": np.ones((batch, length), np.int64), "lengths": lengths}
    if decodes:
        asked["target"] = np.ones((batch, length), np.int64)
    return DocumentedShape(model.given(*example.named(), config, asked), example.at(), example.output_shape)


STEPS = 9
"""Tokens of a padded sentence. The document does not say how many; its shapes are given in words."""


def _weights_of_a_sentence(example: Excerpt) -> Iterator[DocumentedShape]:
    """The weights of every block for one sentence, as the document stacks them: blocks, heads, steps, steps."""
    blocks, sizes = example.parameters["num_blks"], {**example.parameters, "num_steps": STEPS}
    config = {**USUAL, "heads": sizes["num_heads"], "encoder_blocks": blocks, "decoder_blocks": blocks}
    words = len(example.inputs["sentence"].split()) + 1  # and the end token
    names = {
        "encoder_self": "encoder.{}.attention",
        "decoder_self": "decoder.{}.self_attention",
        "encoder_decoder": "decoder.{}.cross_attention",
    }
    for quantity, name in names.items():
        case = model(*example.named(quantity), config, batch=1, source=STEPS, target=STEPS, lengths=(words,),
                     making=WATCHED)  # fmt: skip
        shape = [sizes[size] for size in example.expected[quantity]]
        yield DocumentedShape(
            case, example.at(quantity), shape, partial(_stacked, [name.format(i) for i in range(blocks)])
        )


def _stacked(names: Sequence[str], output: Array, weights: Mapping[str, Array]) -> Array:
    """The weights of these attentions for the first sentence."""
    return np.stack([weights[name][0] for name in names])


def _literal(example: Excerpt) -> DocumentedNumbers:
    """One block with the example's weights; what goes in is a row for each position, less what positions add."""
    given, decodes = example.inputs, example.parameters["part"].startswith("decoder")
    x, memory = numbers(given["x"]), numbers(given.get("encoder_outputs", given["x"]))
    width = x.shape[-1]
    config = {
        "source_vocab": memory.shape[1],
        "target_vocab": max(width, x.shape[1]),
        "width": width,
        "heads": example.parameters["num_heads"],
        "ffn_width": numbers(given["w1"]).shape[-1],
        "encoder_blocks": int(not decodes),
        "decoder_blocks": int(decodes),
        "decoding": "full",
    }
    found = _weights(config, given, decodes)
    found["source_embedding"] = _before_positions(memory)
    lengths = np.array(given.get("encoder_valid_lens") or given["valid_lens"])
    asked = {"source": np.arange(memory.shape[1])[None], "lengths": lengths}
    if decodes:
        found["target_embedding"][: x.shape[1]] = _before_positions(x)
        found["w_logits"][:, :width] = np.eye(width)
        asked["target"] = np.arange(x.shape[1])[None]
    case = model.given(*example.named("output"), config, asked, found)
    return DocumentedNumbers(case, example.gives("output"), lambda output: output[..., :width])


def _weights(config: Config, given: Any, decodes: bool) -> dict[str, Array]:
    """The example's weights of its block; norms of one, and nothing else."""
    found = {
        tensor: np.ones(shape) if tensor.endswith("weight") else np.zeros(shape)
        for tensor, shape in shapes(config).items()
    }
    block = "decoder.0" if decodes else "encoder.0"
    for attention in ("self_attention", "cross_attention") if decodes else ("attention",):
        of = given[attention] if decodes else given
        for role in ("w_query", "w_key", "w_value", "w_output"):
            found[f"{block}.{attention}.{role}"] = numbers(of[role])
    return found | {f"{block}.ffn.{role}": numbers(given[role]) for role in ("w1", "b1", "w2", "b2")}


def _before_positions(x: Array) -> Array:
    """Rows that become x, 1 l d, once they are scaled and their positions are added, l d."""
    positions = positional_encoding(Rounded.exact(np.zeros(x.shape), PRECISIONS["float64"]))
    rows: Array = (x - positions.value)[0] / math.sqrt(x.shape[-1])
    return rows
