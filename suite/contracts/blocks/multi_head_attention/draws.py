"""How inputs of the contract `multi_head_attention` are drawn, and how its backend is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attnsuite.cases import Call
from attnsuite.cases.backends import ExpectedBackendCall, Script
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import Array, Generator, Inputs, dtype_of
from attnsuite.contracts.blocks.multi_head_attention import computation
from attnsuite.contracts.blocks.multi_head_attention.contract import POSITIONAL

Mask = Callable[[Generator], Array]


def draw(
    random: Generator, *, batch: int = 2, queries: int = 5, keys: int = 7, num_heads: int = 2, head_width: int = 4,
    width: int = 0, value_head_width: int = 0, query_width: int = 0, key_width: int = 0, value_width: int = 0,
    out_width: int = 0, biases: tuple[str, ...] = (), size: float | Array = 1.0, peak: float = 3.0,
    mask: Mask | None = None, one_sequence: bool = False, **shapes: tuple[int, ...],
) -> Inputs:  # fmt: skip
    """Inputs whose scores differ by several units, and values with a non-zero mean.

    Missing widths are the `width` of all heads together; there is an output map if it has a width. Of `one_sequence`
    all three inputs are the queries. A tensor's name with a shape replaces that tensor.
    """
    width = width or num_heads * head_width
    value_columns = num_heads * value_head_width or width
    sizes = {
        "query": (batch, queries, query_width or width),
        "key": (batch, keys, key_width or width),
        "value": (batch, keys, value_width or width),
        "w_query": (query_width or width, width),
        "w_key": (key_width or width, width),
        "w_value": (value_width or width, value_columns),
    }
    if out_width:
        sizes["w_output"] = (value_columns, out_width)
    bias_sizes = {"b_query": width, "b_key": width, "b_value": value_columns, "b_output": out_width}
    sizes |= {name: (bias_sizes[name],) for name in biases}
    inputs = {name: random.normal(size=shape) for name, shape in (sizes | shapes).items()}
    inputs |= {name: array / np.sqrt(len(array)) for name, array in inputs.items() if name[:2] == "w_"}
    inputs |= {"query": size * inputs["query"], "key": size * inputs["key"], "value": inputs["value"] + 0.5}
    inputs["w_query"] = peak * inputs["w_query"]
    if one_sequence:
        inputs |= dict.fromkeys(("key", "value"), inputs["query"])
    return inputs if mask is None else inputs | {"attn_mask": mask(random)}


def visible(call: Call, shape: tuple[int, ...]) -> Array:
    """The visible keys, b h l s."""
    mask = call.tensors.get("attn_mask")
    return computation.visible(shape, None if mask is None else mask.numpy(), bool(call.options.get("is_causal")))


def hidden(call: Call) -> Array:
    """The hidden keys, b h l s."""
    query, key = call.tensors["query"], call.tensors["key"]
    return ~visible(call, (len(query), heads_in(call), query.shape[1], key.shape[1]))


def heads_in(call: Call) -> int:
    """The number of heads of a call."""
    return int(call.options["num_heads"] or 0)


case = Formula(
    computation.oracle,
    POSITIONAL,
    draw,
    options=("is_causal", "dropout_p", "need_weights", "step", "drawn"),
    shared=("num_heads",),
    always={"num_heads": 2},
    weights=computation.attention_weights,
    hidden=hidden,
)


def random_mask(*shape: int) -> Mask:
    """A mask of this shape that hides 40 % of the keys."""
    return lambda random: random.random(shape) < 0.6


def heads_of(output: Array, heads: int) -> Array:
    """The heads of an output without a map, b l (h v) → b h l v."""
    return np.stack(np.split(output, heads, axis=-1), axis=1)


def scripts(call: Call, first: Call) -> list[Script]:
    """The expected call of the backend, and those that read its weights, without dropout, if they are requested."""
    tensors, options, heads = call.tensors, call.options, heads_in(call)
    (items, queries, _), keys = tensors["query"].shape, tensors["key"].shape[1]
    width, value_width = (tensors[name].shape[1] // heads for name in ("w_query", "w_value"))
    may_attend, hides = None, ""
    if "attn_mask" in tensors or options.get("is_causal"):
        may_attend = visible(call, (items, heads, queries, keys))
        hides = "what attn_mask hides" if "attn_mask" in tensors else "what comes after a query, as is_causal does"
    expected = ExpectedBackendCall(
        (items, heads, queries, width), (items, heads, keys, width), (items, heads, keys, value_width),
        dtype_of(call), hides, may_attend, float(options.get("dropout_p") or 0.0),
    )  # fmt: skip
    reading = -(-keys // value_width) if call.need_weights else 0
    return [[expected, *[replace(expected, dropout_p=0.0)] * reading]]
