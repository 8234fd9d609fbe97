"""Empty rows: the output of a query that may attend to nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Case, Conventions
from attnsuite.cases.covering import Contradiction
from attnsuite.cases.mutants import Mutation, mutants, with_result
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense
from attnsuite.contracts.attention.computation.gradients import Backward
from attnsuite.contracts.attention.feature import Feature, Grid, Levels, Step, features, visible
from attnsuite.contracts.attention.features.mask import NOT_RANDOM, WITHOUT_COLUMNS, WITHOUT_ROWS, Mask, is_bool
from attnsuite.contracts.attention.lazily import np, torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.contracts.attention.oracle import ForwardPass


def kinds() -> tuple[str, ...]:
    """The words for what may leave a row empty. Without keys the output is zeros unless `no_keys` is declared."""
    return tuple(word for feature in features() for word in feature.hides)


def rules(conventions: Conventions) -> Mapping[str, str]:
    """The declared output of an empty row by the word for what left it empty; zeros for other words."""
    rule = conventions.get("empty_row", "zeros")
    return dict.fromkeys(kinds(), rule) if isinstance(rule, str) else dict(rule)


def _read_needs(call: Call) -> Iterable[str]:
    """Whether some query may attend to nothing, by the contract's own conventions.

    On the device `meta` a mask holds no numbers and may leave one. Without masks only the first and the last query are
    looked at there: where keys are hidden by position, they are the first to be left without any.
    """
    query, key = call.tensors["query"], call.tensors["key"]
    queries, keys = query.shape[-2], key.shape[-2]
    arguments = {**call.options, **call.tensors}
    hiding = [feature.value(arguments) for feature in features() if _may_empty(feature, arguments)]
    if not hiding or not keys or 0 in query.shape:
        return ()
    if any(getattr(value, "is_meta", False) for value in hiding):
        return ("empty_row",)
    rows = torch.tensor(sorted({0, queries - 1})) if query.is_meta else torch.arange(queries)
    seen = visible(arguments, Grid(rows, torch.arange(keys), queries, keys), {})
    return ("empty_row",) if seen is not None and bool((~seen.any(-1)).any()) else ()


def _may_empty(feature: Feature, arguments: Mapping[str, Any]) -> bool:
    return feature.visible is not None and feature.empties is None and feature.value(arguments) is not None


def _undefined_reason(case: Case, needed: frozenset[str], conventions: Conventions) -> str:
    words = {"no_keys"} & needed
    for feature in features():
        if feature.empties:
            words |= feature.empties(case, needed, conventions)
        elif "empty_row" in needed:
            words |= set(feature.hides) & needed
    if len({rules(conventions).get(kind, "zeros") for kind in words}) > 1:
        together = " and ".join(sorted(words))
        return f"its convention gives different outputs to rows left empty by {together}, which meet here"
    if "gradient" in needed and any(rules(conventions).get(kind) == "nan" for kind in words):
        return "its convention gives NaN in empty rows, which leaves the gradients undefined"
    return ""


# The oracle's steps


def _rule(forward: ForwardPass) -> str:
    """The declared output of empty rows for the features that hide keys in this call."""
    if forward.key.shape[-2] == 0:
        return rules(forward.problem.conventions).get("no_keys", "zeros")
    hiding = [feature for feature in features() if feature.hides and feature.value(forward.problem.options) is not None]
    emptying = [feature for feature in hiding if feature.empties is None] or hiding
    if not emptying:
        return "zeros"
    first, value = emptying[0], emptying[0].value(forward.problem.options)
    kind = first.hides[0] if len(first.hides) == 1 else first.hides[not is_bool(value)]
    return rules(forward.problem.conventions).get(kind, "zeros")


def _weigh(forward: ForwardPass) -> None:
    if _rule(forward) == "mean":
        forward.weights = np.where(forward.empty, forward.one / max(forward.key.shape[-2], 1), forward.weights)
        forward.zero_rows = np.zeros_like(forward.empty)


def _fill_output(forward: ForwardPass) -> None:
    if _rule(forward) == "nan":
        forward.output = np.where(forward.empty, np.nan, forward.output)


# Cases


def cases() -> Sequence[Case]:
    """A query that may attend to nothing gives exact zeros, and zero, finite gradients."""
    from attnsuite.cases.layouts import INPUTS
    from attnsuite.contracts.attention.cases.case import case, gradients

    return [
        case("empty_row/bool", "all keys of some queries are False", mask=Mask(pattern="empty_rows")),
        case("empty_row/float", "all keys of some queries are −inf", mask=Mask("float", "empty_rows")),
        case("empty_row/one_bool", "one empty row of one head", mask=Mask(pattern="one_empty_row")),
        case("empty_row/all_bool", "no query may attend to any key", mask=Mask(pattern="nothing")),
        case("empty_row/per_row_bool", "one entry closes a whole row", mask=Mask(pattern="closed_rows", axes="bhl1")),
        case("empty_row/per_row_float", "one −inf closes a whole row", mask=Mask("float", "closed_rows", "bhl1")),
        case("empty_row/broadcast", "an all-False key padding", mask=Mask(pattern="nothing", axes="b11s")),
        case("empty_row/rank_2", "empty rows in a mask for all heads", mask=Mask(pattern="empty_rows", axes="ls")),
        case("empty_row/long_bool", "empty rows across several tiles", keys=300, mask=Mask(pattern="empty_rows")),
        case("empty_row/scale_zero", "0 · −inf must not arise", scale=0.0, mask=Mask("float", "empty_rows")),
        case("empty_row/grouped", "empty rows with grouped heads", heads=4, key_heads=2,
            mask=Mask(pattern="empty_rows")),
        gradients("empty_row/gradient", "some empty rows", mask=Mask(pattern="empty_rows")),
        case("empty_row/gradient_mask", "the mask's own gradient", gradient_of=(*INPUTS, "attn_mask"),
            mask=Mask("float", "empty_rows")),
        gradients("empty_row/gradient_all_float", "all rows empty", mask=Mask("float", "nothing")),
        gradients("empty_row/gradient_one", "one empty row of one head", mask=Mask(pattern="one_empty_row")),
    ]  # fmt: skip


# Mistakes


def empty(scores: Tensor) -> Tensor:
    """True for rows that may attend to nothing, though there are keys: ... l 1."""
    if scores.shape[-1] == 0:
        return torch.zeros(*scores.shape[:-1], 1, dtype=torch.bool, device=scores.device)
    return (scores == -math.inf).all(-1, keepdim=True)


WEIGHTS = mutants(
    Dense,
    softmax={
        "gives_nan_for_empty_row": Mutation(
            'a query that may attend to nothing gives NaN; if that is meant, declare conventions={"empty_row": "nan"}',
            lambda scores, call: Dense.softmax(scores, call).masked_fill(empty(scores), math.nan),
            "pytorch issue 103963"),
        "takes_softmax_of_empty_row": Mutation(
            "a query that may attend to nothing goes through the softmax like any other: NaN, and NaN gradients; if "
            'that is meant, declare conventions={"empty_row": "nan"}', lambda scores, call: scores.softmax(-1),
            "torch.softmax of a row of −∞"),
        "gives_mean_for_empty_row": Mutation(
            "a query that may attend to nothing gives the mean of the values; if that is meant, declare "
            'conventions={"empty_row": "mean"}',
            lambda scores, call: Dense.softmax(scores.masked_fill(empty(scores), 0.0), call),
            "onnxruntime issue 28958"),
        "gives_nan_for_empty_row_of_float_mask": Mutation("a query that a float mask leaves nothing gives NaN",
            with_result(lambda weights, scores, call: weights if call["attn_mask"] is None or is_bool(call["attn_mask"])
            else weights.masked_fill(empty(scores), math.nan)), "jax.nn (its convention)"),
    },
)  # fmt: skip
BACKWARD = mutants(Backward, scores_gradient={"gives_nan_gradient_for_empty_row": Mutation(
    "a query that may attend to nothing has NaN as gradient", with_result(lambda gradient, weights:
    gradient.masked_fill((weights == 0).all(-1, keepdim=True), math.nan)), "pytorch issue 41508")})  # fmt: skip


@Dense.instead("combine",
    "a query that may attend to nothing makes gradients NaN: NaN is replaced by 0 in the output only",
    source="pytorch issue 41508")  # fmt: skip
def poisons_gradients_by_empty_row(weights: Tensor, value: Tensor, call: AttentionCall) -> Tensor:
    if call.keys == 0 or call["dropout_p"] > 0:
        return Dense.combine(weights, value, call)
    nothing = (weights == 0).all(-1, keepdim=True)
    return Dense.combine(weights.masked_fill(nothing, math.nan), value, call).masked_fill(nothing, 0.0)


LEVELS = Levels(
    {"empty_row": {"no_row_emptied": False, "rows_emptied": True}},
    lambda levels: {"mask": Mask(levels["mask"], "empty_rows", levels["mask_axes"])} if levels["empty_row"] else {},
    (
        Contradiction("rows are emptied by masks", {"empty_row": ("rows_emptied",), "mask": ("no_mask",)}),
        Contradiction("rows are emptied by masks that have rows, and hide keys at random otherwise",
            {"empty_row": ("rows_emptied",), "mask_pattern": NOT_RANDOM}),
        Contradiction("rows are emptied by masks that have rows",
            {"empty_row": ("rows_emptied",), "mask_axes": WITHOUT_ROWS}),
        Contradiction("a mask without columns hides nothing but whole rows",
            {"empty_row": ("no_row_emptied",), "mask_axes": WITHOUT_COLUMNS}),
        Contradiction("a mask of equal columns hides nothing but whole rows",
            {"empty_row": ("no_row_emptied",), "attn_mask_layout": ("mask_expanded_last",)}),
        Contradiction("equal rows of a mask leave each query a key",
            {"empty_row": ("rows_emptied",), "attn_mask_layout": ("mask_expanded_rows",)}),
    ),
    unsupported="masks",
)  # fmt: skip

FEATURE = Feature(
    "empty_row", "weights", LEVELS,
    decisions={"empty row": "a query that may attend to nothing gives exact zeros, and zero, finite gradients"},
    vocabulary={"empty_row": "queries that may attend to nothing"},
    read_needs=_read_needs,
    conventions={"empty_row": ("zeros", "nan", "mean")},
    undefined_reason=_undefined_reason,
    oracle={"weights": Step(_weigh), "output": Step(_fill_output)},
    cases=cases,
    aliases={"nan": "empty_row", "fully_masked": "empty_row"},
    in_torch=lambda weights, value, call, conventions: weights,  # the softmax has it in view
)  # fmt: skip
