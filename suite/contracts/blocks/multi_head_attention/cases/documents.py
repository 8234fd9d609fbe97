"""The documents' examples: outputs, heads before they are mapped, weights read through identity values, and shapes.

An example of self-attention is one of a single head. One that divides by another number than √p is asked with queries
that are smaller by as much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from suite import asking
from suite.asking.question import Generator, Inputs, Printed, Refused, Shaped, numbers, within
from suite.contracts.blocks.multi_head_attention.cases.draws import Array, drawn
from suite.contracts.blocks.multi_head_attention.cases.dropout import heads_of
from suite.contracts.blocks.multi_head_attention.contract import BIASES, POSITIONAL
from suite.contracts.blocks.multi_head_attention.oracle import multi_head_attention
from suite.sources import documents

OF_V1, OF_V2 = "doc-003/3.4.2-self-attention-v1", "doc-003/3.4.2-self-attention-v2"
STEPS = {
    "doc-003/3.4.1-stepwise-query-2": (OF_V1, slice(1, 2), False),
    "doc-003/3.5.1-causal-attention-pure": (OF_V2, slice(None), True),
}
"""Examples that are given after their maps: the example with the weights, which queries are asked, and whether causal."""
MAP, ORDER = "doc-003/3.4.1-query-2", "doc-004/11.5.2-split-order"
"""Examples of a map alone, and of splitting and merging alone."""


def printed_examples() -> list[asking.Case]:
    """Every quantity of an example that an output can show."""
    return [*_values(), *_steps(), *_map_alone(), *_heads_alone(), *_shapes(), *_refused()]


def _values() -> Iterator[Printed]:
    examples = documents.of("attention", kind="values") | documents.of("multi_head_attention", kind="values")
    for id, example in examples.items():
        inputs, parameters = example["inputs"], example["parameters"]
        if "w_query" in inputs and "stage" not in parameters:
            given = _given(inputs, parameters)
            yield from _quantities(id, given, parameters.get("num_heads", 1), bool(parameters["causal"]))


def _steps() -> Iterator[Printed]:
    for id, (of, queries, causal) in STEPS.items():
        given = _given(documents.examples()[of]["inputs"], {})
        yield from _quantities(id, given | {"query": given["query"][:, queries]}, 1, causal)


def _map_alone() -> Iterator[Printed]:
    """The one key of a query has the weight 1: the output is the map of its value."""
    example = documents.examples()[MAP]
    x, weights = numbers(example["inputs"]["x"])[None, 1:2], numbers(example["inputs"]["w_query"])
    given = {"query": x, "key": x, "value": x} | dict.fromkeys(("w_query", "w_key", "w_value"), weights)
    yield _printed(MAP, "query_2", given, 1, False, numbers(example["expected"]["query_2"]))


def _heads_alone() -> Iterator[Printed]:
    """A query that attends to its own position alone, in all heads or in one of them, gets what that head holds."""
    example = documents.examples()[ORDER]
    x, heads = numbers(example["inputs"]["x"]), example["parameters"]["num_heads"]
    width = x.shape[-1] // heads
    identity, own = np.eye(x.shape[-1]), np.eye(x.shape[1], dtype=bool)
    given = {"query": x, "key": x, "value": x} | dict.fromkeys(("w_query", "w_key", "w_value"), identity)
    expected = {quantity: numbers(printed) for quantity, printed in example["expected"].items()}
    yield _printed(ORDER, "merged", given | {"attn_mask": own}, heads, False, expected["merged"])
    for head in range(heads):
        alone = (np.arange(heads) == head)[None, :, None, None] & own
        yield _printed(
            ORDER, "split", given | {"attn_mask": alone}, heads, False, expected["split"][head::heads],
            name=f"split_{head}", columns=slice(head * width, (head + 1) * width),
        )  # fmt: skip


def _shapes() -> Iterator[Shaped]:
    for id, example in documents.of("multi_head_attention", kind="shape").items():
        inputs, parameters = example["inputs"], example["parameters"]
        batch, queries, query_width = inputs["query_shape"]
        _, keys, key_width = inputs["key_shape"]
        width = parameters.get("num_hiddens") or parameters["d_feat"]
        heads = parameters["num_heads"]
        draw = partial(
            drawn, batch=batch, queries=queries, keys=keys, heads=heads, head_width=width // heads,
            query_width=query_width, key_width=key_width, value_width=inputs["value_shape"][2], out_width=width,
            biases=BIASES if parameters.get("bias", True) else (),
            mask=partial(_valid, inputs["valid_lens"], keys) if "valid_lens" in inputs else None,
        )  # fmt: skip
        why, due = _why(example, "shape"), tuple(example["expected"]["output_shape"])
        yield Shaped(f"documents/{id}", why, multi_head_attention, draw, POSITIONAL, {"num_heads": heads}, shape=due)


def _refused() -> Iterator[Refused]:
    for id, example in documents.of("multi_head_attention", kind="property").items():
        width, heads = example["inputs"]["d_feat"], example["inputs"]["num_heads"]
        draw = partial(drawn, batch=1, queries=2, keys=2, heads=1, head_width=width)
        why = f"{heads} heads for {width} columns, the defaults in {example['document']}, section {example['section']}"
        yield Refused(f"documents/{id}", why, draw, POSITIONAL, {"num_heads": heads})


def _quantities(id: str, given: Inputs, heads: int, causal: bool) -> Iterator[Printed]:
    example = documents.examples()[id]
    found = example["derived"] | example["expected"]
    for quantity in ("output", "concatenated", "weights"):
        if quantity in found:
            yield _printed(id, quantity, _shown(given, quantity, heads), heads, causal, numbers(found[quantity]))


def _printed(
    id: str,
    quantity: str,
    given: Inputs,
    heads: int,
    causal: bool,
    printed: Array,
    name: str = "",
    columns: slice | None = None,
) -> Printed:
    def select(output: Array) -> Array:
        arranged = heads_of(output, heads) if quantity == "weights" else output[..., columns or slice(None)]
        return arranged.reshape(printed.shape)

    example = documents.examples()[id]
    return Printed(
        f"documents/{id}/{name or quantity}",
        _why(example, quantity),
        multi_head_attention,
        lambda random: given,
        POSITIONAL,
        {"num_heads": heads} | ({"is_causal": True} if causal else {}),
        printed=printed,
        decimals=example["printed_decimals"].get(quantity),
        select=select,
    )


def _given(inputs: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Array]:
    """An example's inputs in the contract's words."""
    given = {role: numbers(inputs.get(f"x_{role}", inputs.get("x"))) for role in ("query", "key", "value")}
    given = {role: x.reshape(-1, *x.shape[-2:]) for role, x in given.items()}
    given |= {name: numbers(array) for name, array in inputs.items() if name.startswith(("w_", "b_"))}
    if "valid_lens" in inputs:
        given["attn_mask"] = within(inputs["valid_lens"], given["key"].shape[1])[:, None]
    smaller = _smaller(inputs, parameters)
    return given | {name: smaller * given[name] for name in ("w_query", "b_query") if name in given}


def _smaller(inputs: dict[str, Any], parameters: dict[str, Any]) -> float:
    """What the queries are multiplied by, so that a division by √p is the document's own: 1 where it is that."""
    if "scale" not in parameters:
        return 1.0
    factor = float(parameters["scale"]) * math.sqrt(len(inputs["w_query"][0]) // parameters.get("num_heads", 1))
    return 1.0 if math.isclose(factor, 1) else factor


def _why(example: dict[str, Any], quantity: str) -> str:
    remark = ""
    if example["kind"] == "values" and "w_query" in example["inputs"]:
        smaller = _smaller(example["inputs"], example["parameters"])
        remark = "" if smaller == 1 else f", with queries {smaller:.4f} as large"
    return f"{example['document']}, section {example['section']}: {quantity}{remark}"


def _shown(given: Inputs, quantity: str, heads: int) -> Inputs:
    """The inputs for which the output is this quantity."""
    hidden = {"output": (), "concatenated": ("w_output", "b_output"), "weights": ("w_output", "b_output", "b_value")}
    shown = {name: array for name, array in given.items() if name not in hidden[quantity]}
    if quantity == "weights":
        batch, keys = given["key"].shape[:2]
        shown |= {"value": np.stack([np.eye(keys)] * batch), "w_value": np.concatenate([np.eye(keys)] * heads, -1)}
    return shown


def _valid(lengths: list[int], keys: int, random: Generator) -> Array:
    return within(lengths, keys)[:, None]
