"""Masks: boolean ones hide keys, float ones are added to the scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Conventions
from attnsuite.cases.case import Traits
from attnsuite.cases.covering import Contradiction
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.feature import Argument, Feature, Grid, Hooks, Levels, Step, Syntax
from attnsuite.contracts.attention.lazily import np, torch
from attnsuite.contracts.attention.masks import TYPED, Mask, read_mask, written_mask

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.contracts.attention.computation.gradients import Gradients, Saved
    from attnsuite.contracts.attention.oracle import Array, BackwardPass, ForwardPass


AXES = (*("bhls", "b11s", "b1ls", "1hls", "bh1s", "1h1s", "11ls", "bhl1"), *("hls", "h1s", "ls", "l1", "s"))
"""The axes that a mask has, 1 for a broadcast one."""
HIDDEN_BY = {
    "random": {"pattern": "random"},
    "padding": {"pattern": "padding"},
    "late": {"pattern": "late"},
    "early": {"pattern": "early"},
    "lowest": {"pattern": "random", "hidden": "lowest"},
    "rows_of_1e9": {"pattern": "empty_rows", "hidden": -1e9},
}
"""Patterns of hidden keys. The last two are float masks that only lower the scores."""
LOWERED = ("lowest", "rows_of_1e9")
EXPANDED = ("expanded_items", "expanded_rows", "expanded_last")
LAYOUTS = ("contiguous", "column_major", "strided", "sliced", *EXPANDED)


def _with(test: Any) -> tuple[str, ...]:
    return tuple(filter(test, AXES))


WITHOUT_ROWS = _with(lambda axes: "l" not in axes)
WITHOUT_COLUMNS = _with(lambda axes: "s" not in axes)
NOT_RANDOM = tuple(HIDDEN_BY)[1:]


def _only_with_a_mask(name: str) -> tuple[Contradiction, Contradiction]:
    """A factor of masks has its first level without a mask, and another level with one."""
    first, *others = FACTORS[name]
    return (
        Contradiction(f"a mask has its {name}", {"mask": ("bool_mask", "float_mask"), name: (first,)}),
        Contradiction(f"without a mask there is no {name}", {"mask": ("no_mask",), name: others}),
    )


FACTORS: Mapping[str, Mapping[str, Any]] = {"mask": {"no_mask": None, "bool_mask": "bool", "float_mask": "float"},
    "mask_axes": {"no_axes": "", **{axes: axes for axes in AXES}}, "mask_pattern": {"no_pattern": {}, **HIDDEN_BY},
    "attn_mask_layout": {"no_layout": "contiguous", **{f"mask_{layout}": layout for layout in LAYOUTS}}}  # fmt: skip
LEVELS = Levels(
    FACTORS,
    lambda levels: {"mask": Mask(levels["mask"], axes=levels["mask_axes"], **levels["mask_pattern"])} if levels["mask"]
        else {},
    (
        *_only_with_a_mask("mask_axes"),
        *_only_with_a_mask("mask_pattern"),
        *_only_with_a_mask("attn_mask_layout"),
        Contradiction("only float masks lower scores", {"mask": ("bool_mask",), "mask_pattern": LOWERED}),
        Contradiction("only in float64 have scores of −1e9 any digits left",
            {"mask_pattern": ("rows_of_1e9",), "dtype": ("float32", "float16", "bfloat16")}),
        Contradiction("only float masks have gradients",
            {"mask": ("no_mask", "bool_mask"), "gradient": ("dq_mask", "dv_mask", "dqkv_mask")}),
        Contradiction("a mask of rank 4 needs scores of rank 4",
            {"mask_axes": _with(lambda a: len(a) > 3), "rank": ("rank_3", "rank_2")}),
        Contradiction("a mask of rank 3 needs scores of rank 3",
            {"mask_axes": _with(lambda a: len(a) == 3), "rank": ("rank_2",)}),
        Contradiction("whole rows of −1e9 are rows of the mask",
            {"mask_pattern": ("rows_of_1e9",), "mask_axes": WITHOUT_ROWS}),
        Contradiction("keys are hidden by masks that have columns",
            {"mask_pattern": NOT_RANDOM, "mask_axes": WITHOUT_COLUMNS}),
        Contradiction("a mask of one axis lies row by row or with strides",
            {"mask_axes": ("s",), "attn_mask_layout": ("mask_column_major", "mask_sliced")}),
        *(Contradiction("a mask is expanded along an axis that it has",
            {"attn_mask_layout": (f"mask_{layout}",), "mask_axes": _with(lambda a, axis=axis: axis not in a)})
            for layout, axis in zip(EXPANDED, "bls", strict=True)),
    ),
    unsupported="masks",
)  # fmt: skip


def cut(mask: Any, grid: Grid) -> Any:
    """The part of a mask on a grid; axes along which it broadcasts stay 1."""
    if grid.whole:
        return mask
    if mask.ndim > 1 and mask.shape[-2] > 1:
        mask = mask[..., grid.rows, :]
    return mask[..., grid.columns] if mask.ndim and mask.shape[-1] > 1 else mask


def is_bool(mask: Any) -> bool:
    """Whether a mask of numpy or torch is boolean."""
    return "bool" in str(mask.dtype)


def has_empty_row(mask: Any) -> bool:
    """Whether a mask may leave a query nothing to attend to; one without data, on the device `meta`, may."""
    if mask is None or mask.numel() == 0:
        return False
    return mask.is_meta or bool((~(mask if is_bool(mask) else mask != -math.inf).any(-1)).any())


def visible(grid: Grid, mask: Any, conventions: Conventions) -> Any:
    part = cut(mask, grid)
    return part if is_bool(part) else part != -math.inf


def _read_needs(call: Call) -> Iterable[str]:
    mask = call.tensors.get("attn_mask")
    if mask is not None:
        yield "bool_mask" if is_bool(mask) else "float_mask"
    if "attn_mask" in call.gradient_of:
        yield "mask_gradient"


def _adapt(call: Call, conventions: Conventions) -> Call:
    """Under `may_not`, a boolean mask is inverted."""
    mask = call.tensors.get("attn_mask")
    if conventions.get("bool_mask") != "may_not" or mask is None or not is_bool(mask):
        return call
    size = mask.untyped_storage().nbytes()  # a byte each: inverting them all keeps strides, offset and expansion
    inverted = mask.as_strided((size,), (1,), 0).logical_not()
    view = inverted.as_strided(mask.size(), mask.stride(), mask.storage_offset())
    return replace(call, tensors={**call.tensors, "attn_mask": view})


# The oracle's step


def _add(forward: ForwardPass) -> None:
    mask = forward.problem.options.get("attn_mask")
    if mask is not None and not is_bool(mask):
        part = cut(mask, forward.problem.grid)
        bias = np.where(part == -np.inf, 0, part)
        forward.scores, forward.bias_size = forward.scores + bias, abs(bias).astype(np.float64)


def _add_back(forward: ForwardPass, backward: BackwardPass) -> None:
    if "attn_mask" not in forward.problem.gradient_of:
        return
    shape = forward.problem.options["attn_mask"].shape
    d_scores = abs(backward.d_scores).astype(np.float64)
    count = d_scores.size / max(math.prod(shape), 1)
    u, a = forward.precision.unit, forward.precision.accumulator
    error = _summed(backward.error + (u + a * count) * d_scores, shape) if count > 1 else backward.error
    backward.gradients["attn_mask"] = backward.with_rounding_error(
        _summed(backward.d_scores, shape), error.reshape(shape)
    )


def _summed(array: Array, shape: tuple[int, ...]) -> Array:
    """Sum b h l s over the axes along which a mask of `shape` was broadcast."""
    padded = (1,) * (array.ndim - len(shape)) + shape
    axes = tuple(axis for axis, size in enumerate(padded) if size == 1 and array.shape[axis] != 1)
    return array.sum(axis=axes, keepdims=True).reshape(shape) if axes else array.reshape(shape)


# The computation's steps


def _complaint(call: AttentionCall) -> str:
    mask, expected = call["attn_mask"], call.scores_shape
    if mask is None:
        return ""
    if mask.dtype not in (torch.bool, call.query.dtype):
        return f"attn_mask must be bool or {call.query.dtype}, not {mask.dtype}"
    fits = all(size in (1, axis) for size, axis in zip(reversed(mask.shape), reversed(expected), strict=False))
    if mask.dim() > len(expected) or not fits:
        return f"attn_mask {tuple(mask.shape)} cannot broadcast to the scores {expected}"
    return ""


def mask(call: AttentionCall) -> Tensor | None:
    """The mask that is used."""
    used: Tensor | None = call["attn_mask"]
    return used


def bool_mask(scores: Tensor, mask: Tensor, call: AttentionCall) -> Tensor:
    return scores.masked_fill(~mask, -math.inf)


def float_mask(scores: Tensor, mask: Tensor, call: AttentionCall) -> Tensor:
    return scores + mask.to(scores.dtype)


def mask_gradient(d_scores: Tensor, mask: Tensor) -> Tensor:
    return d_scores.sum_to_size(mask.shape)


def _score(computation: Any, scores: Tensor, call: AttentionCall, grid: Grid) -> Tensor:
    used = computation.mask(call)
    if used is None or is_bool(used):
        return scores
    added: Tensor = computation.float_mask(scores, computation.mask_part(used, grid), call)
    return added


def _hide(computation: Any, scores: Tensor, call: AttentionCall, grid: Grid) -> Tensor:
    used = computation.mask(call)
    if used is None or not is_bool(used):
        return scores
    hidden: Tensor = computation.bool_mask(scores, computation.mask_part(used, grid), call)
    return hidden


def _score_gradient(computation: Any, d_scores: Tensor, saved: Saved, gradients: Gradients) -> Tensor:
    if "attn_mask" in saved.wanted:
        gradients["attn_mask"] = computation.mask_gradient(d_scores, saved.call["attn_mask"])
    return d_scores


def _traits(drawn: Mask, sizes: Any) -> Traits:
    """Its kind, its axes and its pattern."""
    lacking = {"b": "batch items", "h": "heads", "l": "queries", "s": "keys"}
    kind = "a boolean mask" if drawn.kind == "bool" else "a float mask"
    alike = (f"a mask that is the same for all {words}" for axis, words in lacking.items() if axis not in drawn.axes)
    return {"mask": ("a mask", kind), "axes": (f"a mask with the axes {' '.join(drawn.axes)}", *alike),
        "pattern": (f"a mask of the pattern {drawn.pattern}",)}  # fmt: skip


def _in_torch(scores: str, value: Tensor | None, call: Call, conventions: Conventions) -> str:
    if value is None:
        return scores
    return f"({scores}).masked_fill(~attn_mask, -torch.inf)" if is_bool(value) else f"{scores} + attn_mask"


FEATURE = Feature(
    "mask", "score", LEVELS, Argument("attn_mask", None, place=0),
    place=2,
    decisions={"boolean mask": "True means may attend; broadcastable to … h l s",
        "float mask": "added to the scaled scores; may hold −inf; its gradient flows; has the query's dtype"},
    vocabulary={"bool_mask": "boolean masks", "float_mask": "float masks",
        "mask_gradient": "gradients of a float mask"},
    read_needs=_read_needs,
    conventions={"bool_mask": ("may_attend", "may_not")},
    adapt=_adapt,
    draw=lambda drawn, drawing: {"attn_mask": drawn.draw(drawing.random, drawing.sizes, drawing.dtype)},
    visible=visible,
    added=lambda grid, mask: None if is_bool(mask) else cut(mask, grid),
    hides=("bool_mask", "float_mask"),
    oracle={"score": Step(_add, _add_back)},
    hooks=Hooks(
        score=_score,
        hide=_hide,
        score_gradient=_score_gradient,
        steps={
            "mask": mask,
            "mask_part": cut,
            "bool_mask": bool_mask,
            "float_mask": float_mask,
            "mask_gradient": mask_gradient,
        },
    ),
    complaint=_complaint,
    aliases=dict.fromkeys(("mask", "attn_mask", "masks", "padding", "key_padding_mask"), "bool_mask")
    | dict.fromkeys(("bias", "attn_bias", "alibi"), "float_mask"),
    in_torch=_in_torch,
    traits=_traits,
    label=lambda drawn: f"{drawn.kind} mask" + f", {drawn.pattern}, {drawn.axes}" * (drawn != Mask(drawn.kind)),
    syntax=Syntax(f"bool or float, then .PATTERN of {', '.join(TYPED)}, then .AXES of bhls, 1 for a broadcast one",
        read_mask, written_mask),
)  # fmt: skip
