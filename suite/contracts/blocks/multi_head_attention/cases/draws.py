"""How the numbers of a case are drawn: always so that a mistake shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnsuite.cases import Call
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import Array, Generator, Inputs
from attnsuite.contracts.blocks.multi_head_attention.contract import POSITIONAL
from attnsuite.contracts.blocks.multi_head_attention.oracle import attention_weights, multi_head_attention

Mask = Callable[[Generator], Array]


def drawn(
    random: Generator,
    *,
    batch: int = 2,
    queries: int = 5,
    keys: int = 7,
    num_heads: int = 2,
    head_width: int = 4,
    width: int = 0,
    value_head_width: int = 0,
    query_width: int = 0,
    key_width: int = 0,
    value_width: int = 0,
    out_width: int = 0,
    biases: tuple[str, ...] = (),
    size: float | Array = 1.0,
    peak: float = 3.0,
    mask: Mask | None = None,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Inputs whose scores differ by several units, so that a mistake shows; values with a non-zero mean.

    Widths that are not given are the `width` of all heads together, and there is an output map where its width is
    given. A name with a shape replaces that tensor.
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
    return inputs if mask is None else inputs | {"attn_mask": mask(random)}


def hidden(call: Call) -> Array:
    """Where a query may not attend to a key, b h l s."""
    query, key = call.tensors["query"], call.tensors["key"]
    shape = (len(query), int(call.options["num_heads"] or 1), query.shape[1], key.shape[1])
    mask = call.tensors.get("attn_mask")
    allowed = np.broadcast_to(True if mask is None else mask.numpy(), shape)
    return ~(np.tril(allowed) if call.options.get("is_causal") else allowed)


asked = Formula(
    multi_head_attention,
    POSITIONAL,
    drawn,
    options=("is_causal", "dropout_p", "need_weights"),
    shared=("num_heads",),
    always={"num_heads": 2},
    weights=attention_weights,
    hidden=hidden,
)
