"""An attention is plugged in, which records how it is called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from attnsuite.cases import Call, Case
from attnsuite.cases.backends import BackendCase, ExpectedBackendCall, Script
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.random_cases import DropoutCase
from attnsuite.cases.tensors import PRECISE, dtype_of
from attnsuite.contracts.blocks.multi_head_attention.cases.decisions import of, with_empty_rows
from attnsuite.contracts.blocks.multi_head_attention.cases.draws import asked
from attnsuite.contracts.blocks.multi_head_attention.cases.dropout import DroppedInHeads, Showing
from attnsuite.contracts.blocks.multi_head_attention.contract import BIASES, INPUT_BIASES


def plug() -> Iterator[BackendCase]:
    """The attention that is given computes all heads, with just the arguments that the call needs."""
    cross = {"queries": 4, "key_width": 5, "value_width": 3, "value_head_width": 3, "num_heads": 3}
    alike = {"batch": 3, "queries": 3, "keys": 3, "num_heads": 3, "head_width": 3}
    yield plugged(asked("plug/called", "once, for all heads of all items, in the query's dtype"))
    yield plugged(asked("plug/masked", "with a mask, biases and an output map", mask=of(2, 2, 5, 7), out_width=5,
                        biases=BIASES))  # fmt: skip
    yield plugged(asked("causal/plugged", "with the causal rule; more heads than items", PRECISE, batch=1, num_heads=3,
                        is_causal=True))  # fmt: skip
    yield plugged(asked("plug/by_query", "with a mask of two axes, of other widths; more heads than items", PRECISE,
                        mask=of(4, 7), out_width=5, **cross))  # fmt: skip
    yield plugged(asked("plug/empty_rows", "with queries that may attend to nothing", PRECISE, mask=with_empty_rows,
                        biases=("b_value",)))  # fmt: skip
    yield plugged(asked("plug/square", "with as many heads as items, queries and keys", PRECISE, biases=INPUT_BIASES,
                        mask=of(3, 1, 3, 3), **alike))  # fmt: skip
    yield plugged(out_of_order(asked("layout/plugged", "with tensors that do not lie row by row", PRECISE,
                                     mask=of(2, 1, 5, 7))))  # fmt: skip
    yield plugged(asked("dropout/plugged_certain", "with dropout, of everything", PRECISE, dropout_p=1.0, out_width=5,
                        biases=BIASES))  # fmt: skip
    yield plugged(asked("plug/weights", "the weights of what is plugged in are read off it, with the identity as values",
                        PRECISE, mask=of(2, 1, 5, 7), need_weights=True))  # fmt: skip
    yield plugged(asked("plug/weights_dropped", "they are read off it without dropout", PRECISE, is_causal=True,
                        dropout_p=1.0, need_weights=True))  # fmt: skip
    yield plugged(_dropped("dropout/plugged", "with dropout, whose share is its own"))
    yield plugged(_dropped("dropout/plugged_causal", "with dropout under the causal rule", is_causal=True))


def plugged(case: Case) -> BackendCase:
    return BackendCase(case, scripts)


def scripts(call: Call, first: Call) -> list[Script]:
    """One call of the plug; where its weights are wanted, then those that read them, without dropout."""
    tensors, options = call.tensors, call.options
    heads = int(options["num_heads"] or 1)
    (items, queries, _), keys = tensors["query"].shape, tensors["key"].shape[1]
    width, value_width = (tensors[name].shape[1] // heads for name in ("w_query", "w_value"))
    mask, hides = tensors.get("attn_mask"), ""
    may_attend = None if mask is None else mask.numpy()
    if mask is not None:
        hides = "what attn_mask hides"
    elif options.get("is_causal"):
        may_attend, hides = np.tri(queries, keys, dtype=bool), "what comes after a query, as is_causal does"
    due = ExpectedBackendCall(
        (items, heads, queries, width), (items, heads, keys, width), (items, heads, keys, value_width),
        dtype_of(call), hides, may_attend, float(options.get("dropout_p") or 0.0),
    )  # fmt: skip
    read = replace(due, dropout_p=0.0)
    return [[due, *([read] * -(-keys // value_width) if call.need_weights else [])]]


def _dropped(name: str, why: str, **unusual: Any) -> DropoutCase:
    sizes = {"queries": 8, "keys": 8, "head_width": 8}
    of = asked(name, why, ("float32",), peak=1.0, dropout_p=0.4, **sizes, **unusual)
    return DropoutCase(Showing(of), DroppedInHeads())
