"""The documents' examples: outputs, heads before they are mapped, weights read through identity values, and shapes.

An example of self-attention is one of a single head. One that divides by another number than √p is asked with queries
that are smaller by as much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import DocumentedNumbers
from attnsuite.cases.tensors import Array, Inputs, identity_values, numbers, valid
from attnsuite.contracts.blocks.multi_head_attention.cases.draws import asked
from attnsuite.contracts.blocks.multi_head_attention.cases.dropout import heads_of
from attnsuite.contracts.blocks.multi_head_attention.cases.shapes import shapes
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt

OF_V1, OF_V2 = "doc-003/3.4.2-self-attention-v1", "doc-003/3.4.2-self-attention-v2"
STEPS = {
    "doc-003/3.4.1-stepwise-query-2": (OF_V1, slice(1, 2), False),
    "doc-003/3.5.1-causal-attention-pure": (OF_V2, slice(None), True),
}
"""Examples that are given after their maps: the example with the weights, which queries are asked, and whether causal."""
MAP, ORDER = "doc-003/3.4.1-query-2", "doc-004/11.5.2-split-order"
"""Examples of a map alone, and of splitting and merging alone."""
MAPS = ("w_query", "w_key", "w_value")


def printed_examples() -> list[Case]:
    """Every quantity of an example that an output can show."""
    return [*_values(), *_steps(), *_map_alone(), *_heads_alone(), *shapes(), *_refused()]


def _values() -> Iterator[DocumentedNumbers]:
    for example in documents.of("attention", "multi_head_attention", kind="values"):
        if "w_query" in example.inputs and "stage" not in example.parameters:
            heads, causal = example.parameters.get("num_heads", 1), bool(example.parameters["causal"])
            yield from _quantities(example, _given(example), heads, causal)


def _steps() -> Iterator[DocumentedNumbers]:
    examples = documents.examples()
    for id, (of, queries, causal) in STEPS.items():
        given = _given(examples[of])
        yield from _quantities(examples[id], given | {"query": given["query"][:, queries]}, 1, causal)


def _map_alone() -> Iterator[DocumentedNumbers]:
    """The one key of a query has the weight 1: the output is the map of its value."""
    example = documents.examples()[MAP]
    x, weights = numbers(example.inputs["x"])[None, 1:2], numbers(example.inputs["w_query"])
    given = {"query": x, "key": x, "value": x} | dict.fromkeys(MAPS, weights)
    yield _printed(example, "query_2", given, 1, False)


def _heads_alone() -> Iterator[DocumentedNumbers]:
    """A query that attends to its own position alone, in all heads or in one of them, gets what that head holds."""
    example = documents.examples()[ORDER]
    x, heads = numbers(example.inputs["x"]), example.parameters["num_heads"]
    width = x.shape[-1] // heads
    identity, own = np.eye(x.shape[-1]), np.eye(x.shape[1], dtype=bool)
    given = {"query": x, "key": x, "value": x} | dict.fromkeys(MAPS, identity)
    yield _printed(example, "merged", given | {"attn_mask": own}, heads, False)
    for head in range(heads):
        alone = (np.arange(heads) == head)[None, :, None, None] & own
        values = numbers(example.expected["split"])[head::heads]
        columns = slice(head * width, (head + 1) * width)
        shown = given | {"attn_mask": alone}
        yield _printed(example, "split", shown, heads, False, values, name=f"split_{head}", columns=columns)


def _refused() -> Iterator[BadInputCase]:
    for example in documents.of("multi_head_attention", kind="property"):
        width, heads = example.inputs["d_feat"], example.inputs["num_heads"]
        name, _ = example.named()
        why = f"{heads} heads for {width} columns, the defaults in {example.document}, section {example.section}"
        yield BadInputCase(asked(name, why, num_heads=heads, batch=1, queries=2, keys=2, width=width), example.at())


def _quantities(example: Excerpt, given: Inputs, heads: int, causal: bool) -> Iterator[DocumentedNumbers]:
    for quantity in ("output", "concatenated", "weights"):
        if quantity in example.quantities:
            yield _printed(example, quantity, _shown(given, quantity, heads), heads, causal)


def _printed(
    example: Excerpt,
    quantity: str,
    given: Inputs,
    heads: int,
    causal: bool,
    values: Array | None = None,
    name: str = "",
    columns: slice | None = None,
) -> DocumentedNumbers:
    figures, remark = example.gives(quantity, values), _remark(example)
    due = numbers(figures.values).shape

    def select(output: Array) -> Array:
        arranged = heads_of(output, heads) if quantity == "weights" else output[..., columns or slice(None)]
        return arranged.reshape(due)

    options: dict[str, Any] = {"num_heads": heads} | ({"is_causal": True} if causal else {})
    case = asked.given(*example.named(quantity, remark, name), given, **options)
    return DocumentedNumbers(case, figures, select, remark=remark)


def _given(example: Excerpt) -> dict[str, Array]:
    """An example's inputs in the contract's words."""
    inputs = example.inputs
    given = {role: numbers(inputs.get(f"x_{role}", inputs.get("x"))) for role in ("query", "key", "value")}
    given = {role: x.reshape(-1, *x.shape[-2:]) for role, x in given.items()}
    given |= {name: numbers(array) for name, array in inputs.items() if name.startswith(("w_", "b_"))}
    if "valid_lens" in inputs:
        given["attn_mask"] = valid(inputs["valid_lens"], given["key"].shape[1])[:, None]
    smaller = _smaller(example)
    return given | {name: smaller * given[name] for name in ("w_query", "b_query") if name in given}


def _smaller(example: Excerpt) -> float:
    """What the queries are multiplied by, so that a division by √p is the document's own: 1 where it is that."""
    if "scale" not in example.parameters or example.kind != "values" or "w_query" not in example.inputs:
        return 1.0
    width = len(example.inputs["w_query"][0]) // example.parameters.get("num_heads", 1)
    factor = float(example.parameters["scale"]) * math.sqrt(width)
    return 1.0 if math.isclose(factor, 1) else factor


def _remark(example: Excerpt) -> str:
    smaller = _smaller(example)
    return "" if smaller == 1 else f", with queries {smaller:.4f} as large"


def _shown(given: Inputs, quantity: str, heads: int) -> Inputs:
    """The inputs for which the output is this quantity."""
    hidden = {"output": (), "concatenated": ("w_output", "b_output"), "weights": ("w_output", "b_output", "b_value")}
    shown = {name: array for name, array in given.items() if name not in hidden[quantity]}
    if quantity == "weights":
        items, keys = given["key"].shape[:2]
        shown |= {"value": identity_values(items, keys), "w_value": np.concatenate([np.eye(keys)] * heads, -1)}
    return shown
