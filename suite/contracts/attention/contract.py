"""The contract `attention`: what an implementation promises, decided once.

    attention(query, key, value, *, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False)
        -> output

    output = dropout(softmax(scale · query keyᵀ + mask)) value

Axes, in this order: `… h l e` query, `… g s e` key, `… g s v` value, `… h l v` output (l queries, s keys, e width,
v value width, h query heads, g key/value heads). Rank 2, 3 and 4.

    scale            None means 1/√e; any float is legal, zero and negative included
    boolean mask     True means may attend; broadcastable to … h l s
    float mask       added to the scaled scores; may hold −inf; its gradient flows; has the query's dtype
    is_causal        query i attends keys j ≤ i, aligned at the upper left, also when l ≠ s
    both of them     undefined: not asked
    empty row        a query that may attend to nothing gives exact zeros, and zero, finite gradients
    no keys          s = 0 gives zeros; l = 0 gives an empty output
    heads            query head i reads key/value head i // (h/g)
    dropout          on the weights; kept ones × 1/(1−p); p = 0 is exact; p = 1 gives zeros
    inputs           never modified; the output aliases none; strides, offsets and stride-0 expansion are honoured
    output           query's dtype and device
    leading axes     equal in query, key and value; broadcasting beyond that is not asked
    bad input        raises before any work: mismatched widths, key/value lengths, heads that do not divide, a mask that
                     cannot broadcast, p outside [0, 1]
    overflow         scores that overflow the dtype are wrong: float16 kernels accumulate wider
    rounding         sums may run in any order, the mask included. In half types queries, keys, scores and weights may
                     be rounded to the dtype on the way; sums are made in float32. In float32 a product may be made of
                     three products of TensorFloat-32, which is off by 2⁻²⁰ at most; one alone is not float32
    repeated calls   each is right within the bounds; equal bits are not asked, since atomic sums have no order
    NaN              in masked keys or values: not asked
    random source    torch.manual_seed; a statistical case accuses an honest implementation with probability ≤ 1e-9
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from suite.asking import EVERYWHERE, Call, Case, Contract, Conventions, rooms

if TYPE_CHECKING:
    from torch import Tensor

LARGE = 2**16
"""Multiplications per operand, b·h·l·s·(e + v), beyond which a case needs the feature `large`."""

FEATURES = {
    "bool_mask": "boolean masks",
    "float_mask": "float masks",
    "causal": "is_causal",
    "scale": "an explicit scale",
    "gqa": "grouped key/value heads",
    "dropout": "dropout",
    "gradient": "gradients of query, key and value",
    "mask_gradient": "gradients of a float mask",
    "empty_row": "queries that may attend to nothing",
    "no_keys": "no keys, no queries, no items",
    "value_width": "a value width of its own",
    "rank2": "inputs of rank 2",
    "rank3": "inputs of rank 3",
    "large": "more than 65,536 multiplications per operand",
    **EVERYWHERE,
}

CONVENTIONS = {
    "causal": ("upper_left", "lower_right"),
    "empty_row": ("zeros", "nan", "mean"),
    "bool_mask": ("may_attend", "may_not"),
}
"""What may be declared; the first of each is the contract's own. empty_row may be given per kind of mask."""

MASK_KINDS = ("bool_mask", "float_mask", "causal")
"""What may leave a row empty. Where there are no keys at all, zeros are due unless `no_keys` is declared by name."""

PARAMETERS = {
    "attn_mask": ("bool_mask", "float_mask", "mask_gradient"),
    "dropout_p": ("dropout",),
    "is_causal": ("causal",),
    "scale": ("scale",),
    "enable_gqa": ("gqa",),
}


def needs(calls: tuple[Call, ...]) -> frozenset[str]:
    """The features that these calls need, read off the calls themselves."""
    return frozenset().union(*(_needs(call) for call in calls))


def _needs(call: Call) -> frozenset[str]:
    query, key, value = (call.tensors[name] for name in ("query", "key", "value"))
    mask = call.tensors.get("attn_mask")
    needed = {str(query.dtype).removeprefix("torch.")}
    if mask is not None:
        needed.add("bool_mask" if mask.dtype.is_floating_point is False else "float_mask")
    for option, feature in (
        ("is_causal", "causal"),
        ("scale", "scale"),
        ("enable_gqa", "gqa"),
        ("dropout_p", "dropout"),
    ):
        if option in call.options:
            needed.add(feature)
    if call.gradient_of:
        needed.add("gradient")
    if "attn_mask" in call.gradient_of:
        needed.add("mask_gradient")
    if has_empty_row(mask):
        needed.add("empty_row")
    if 0 in query.shape or 0 in key.shape:
        needed.add("no_keys")
    if value.shape[-1] != query.shape[-1]:
        needed.add("value_width")
    if query.dim() < 4:
        needed.add(f"rank{query.dim()}")
    if query.numel() * key.shape[-2] + query.numel() // query.shape[-1] * key.shape[-2] * value.shape[-1] > LARGE:
        needed.add("large")
    return frozenset(needed)


def has_empty_row(mask: Tensor | None) -> bool:
    """Whether a mask may leave a query nothing to attend to; one without data, on the device `meta`, may."""
    if mask is None or mask.numel() == 0:
        return False
    if mask.is_meta:
        return True
    allowed = mask != float("-inf") if mask.dtype.is_floating_point else mask
    return bool((~allowed.any(-1)).any())


def adapt(call: Call, conventions: Conventions) -> Call:
    """The same question in the words of a declared convention: a mask that says who may not attend is inverted."""
    mask = call.tensors.get("attn_mask")
    if conventions.get("bool_mask") != "may_not" or mask is None or mask.dtype.is_floating_point:
        return call
    held = mask.untyped_storage().nbytes()  # a byte each: inverting them all keeps strides, offset and expansion
    inverted = mask.as_strided((held,), (1,), 0).logical_not()
    view = inverted.as_strided(mask.size(), mask.stride(), mask.storage_offset())
    return replace(call, tensors={**call.tensors, "attn_mask": view})


def empty_row_rules(conventions: Conventions) -> Mapping[str, str]:
    """What an empty row answers by kind of mask; zeros where a kind is not in it."""
    rule = conventions.get("empty_row", "zeros")
    return dict.fromkeys(MASK_KINDS, rule) if isinstance(rule, str) else dict(rule)


def unanswerable(case: Case, needed: frozenset[str], conventions: Conventions) -> str:
    """Why a question has no defined answer under these conventions, or empty."""
    rules = empty_row_rules(conventions)
    kinds = {"no_keys"} & needed
    if "empty_row" in needed:
        kinds |= {"bool_mask", "float_mask"} & needed
    if conventions.get("causal") == "lower_right" and getattr(case, "queries", 0) > getattr(case, "keys", 0):
        kinds |= {"causal"} & needed
    if "gradient" in needed and any(rules.get(kind) == "nan" for kind in kinds):
        return "its convention answers NaN in empty rows, which leaves the gradients undefined"
    return ""


CONTRACT = Contract(
    name="attention",
    features=FEATURES,
    conventions=CONVENTIONS,
    parameter_features=PARAMETERS,
    needs=needs,
    adapt=adapt,
    unanswerable=unanswerable,
    strict_core=True,
    findings=Path(__file__).with_name("findings.toml"),
    core_dtypes={"cpu": "float32", "cuda": "float16"},  # fused CUDA kernels exist in half precision only
    **rooms(
        __package__,
        deviations="deviations.deviations",
        controls="deviations.controls",
        strangers="strangers.strangers",
        workloads="workloads.workloads",
        examples="cases.documents.table",
    ),
)
