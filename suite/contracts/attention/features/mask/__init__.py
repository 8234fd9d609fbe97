"""Masks, boolean and float: who may attend to whom, and what is added to the scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Case, Conventions
from attnsuite.cases.case import Traits
from attnsuite.contracts.attention.computation.asked import Asked
from attnsuite.contracts.attention.feature import Argument, Computed, Drawing, Feature, Grid, Step, Typed
from attnsuite.contracts.attention.features.mask.levels import LEVELS
from attnsuite.contracts.attention.features.mask.patterns import Mask as Mask
from attnsuite.contracts.attention.features.mask.typed import TYPED, read, written
from attnsuite.contracts.attention.lazily import np, torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.contracts.attention.computation.backward import Gradients, Saved
    from attnsuite.contracts.attention.oracle import Array, Forward, Slopes


def cut(mask: Any, grid: Grid) -> Any:
    """What of a mask falls on a grid, without expanding the axes along which it broadcasts."""
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


def _added(grid: Grid, mask: Any) -> Any:
    return None if is_bool(mask) else cut(mask, grid)


def _needed(call: Call) -> Iterable[str]:
    mask = call.tensors.get("attn_mask")
    if mask is not None:
        yield "bool_mask" if is_bool(mask) else "float_mask"
    if "attn_mask" in call.gradient_of:
        yield "mask_gradient"


def _adapt(call: Call, conventions: Conventions) -> Call:
    """A mask that says who may not attend is inverted."""
    mask = call.tensors.get("attn_mask")
    if conventions.get("bool_mask") != "may_not" or mask is None or not is_bool(mask):
        return call
    held = mask.untyped_storage().nbytes()  # a byte each: inverting them all keeps strides, offset and expansion
    inverted = mask.as_strided((held,), (1,), 0).logical_not()
    view = inverted.as_strided(mask.size(), mask.stride(), mask.storage_offset())
    return replace(call, tensors={**call.tensors, "attn_mask": view})


# The oracle's step


def _add(of: Forward) -> None:
    mask = of.asked.options.get("attn_mask")
    if mask is not None and not is_bool(mask):
        given = cut(mask, of.asked.grid)
        bias = np.where(given == -np.inf, 0, given)
        of.scores, of.begun = of.scores + bias, abs(bias).astype(np.float64)


def _add_back(of: Forward, slopes: Slopes) -> None:
    if "attn_mask" not in of.asked.gradient_of:
        return
    shape = of.asked.options["attn_mask"].shape
    d_scores = abs(slopes.scores).astype(np.float64)
    count = d_scores.size / max(math.prod(shape), 1)
    u, a = of.precision.unit, of.precision.accumulator
    error = _summed(slopes.error + (u + a * count) * d_scores, shape) if count > 1 else slopes.error
    slopes.found["attn_mask"] = slopes.rounded(_summed(slopes.scores, shape), error.reshape(shape))


def _summed(array: Array, shape: tuple[int, ...]) -> Array:
    """Sum b h l s over the axes along which a mask of `shape` was broadcast."""
    padded = (1,) * (array.ndim - len(shape)) + shape
    axes = tuple(axis for axis, size in enumerate(padded) if size == 1 and array.shape[axis] != 1)
    return array.sum(axis=axes, keepdims=True).reshape(shape) if axes else array.reshape(shape)


# The computation's steps


def _refuse(asked: Asked) -> str:
    given, due = asked["attn_mask"], asked.scores_shape
    if given is None:
        return ""
    if given.dtype not in (torch.bool, asked.query.dtype):
        return f"attn_mask must be bool or {asked.query.dtype}, not {given.dtype}"
    fits = all(size in (1, wanted) for size, wanted in zip(reversed(given.shape), reversed(due), strict=False))
    if given.dim() > len(due) or not fits:
        return f"attn_mask {tuple(given.shape)} cannot broadcast to the scores {due}"
    return ""


def mask(asked: Asked) -> Tensor | None:
    """The mask that is used."""
    used: Tensor | None = asked["attn_mask"]
    return used


def bool_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores.masked_fill(~mask, -math.inf)


def float_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores + mask.to(scores.dtype)


def mask_gradient(d_scores: Tensor, mask: Tensor) -> Tensor:
    return d_scores.sum_to_size(mask.shape)


def _score(of: Any, scores: Tensor, asked: Asked, grid: Grid) -> Tensor:
    used = of.mask(asked)
    if used is None or is_bool(used):
        return scores
    added: Tensor = of.float_mask(scores, of.mask_part(used, grid), asked)
    return added


def _hide(of: Any, scores: Tensor, asked: Asked, grid: Grid) -> Tensor:
    used = of.mask(asked)
    if used is None or not is_bool(used):
        return scores
    hidden: Tensor = of.bool_mask(scores, of.mask_part(used, grid), asked)
    return hidden


def _score_gradient(of: Any, d_scores: Tensor, saved: Saved, gradients: Gradients) -> Tensor:
    if "attn_mask" in saved.wanted:
        gradients["attn_mask"] = of.mask_gradient(d_scores, saved.asked["attn_mask"])
    return d_scores


def _cases() -> Sequence[Case]:
    from attnsuite.contracts.attention.features.mask.cases import cases

    return cases()


def _given(drawn: Mask, drawing: Drawing) -> dict[str, Tensor]:
    return {"attn_mask": drawn.draw(drawing.random, drawing.sizes, drawing.dtype)}


def _traits(drawn: Mask, sizes: Any) -> Traits:
    """Its kind, its axes and its pattern."""
    lacking = {"b": "batch items", "h": "heads", "l": "queries", "s": "keys"}
    kind = "a boolean mask" if drawn.kind == "bool" else "a float mask"
    alike = (f"a mask that is the same for all {words}" for axis, words in lacking.items() if axis not in drawn.axes)
    return {
        "mask": ("a mask", kind),
        "axes": (f"a mask with the axes {' '.join(drawn.axes)}", *alike),
        "pattern": (f"a mask of the pattern {drawn.pattern}",),
    }


def _in_torch(scores: str, value: Tensor | None, call: Call, conventions: Conventions) -> str:
    if value is None:
        return scores
    return f"({scores}).masked_fill(~attn_mask, -torch.inf)" if is_bool(value) else f"{scores} + attn_mask"


FEATURE = Feature(
    "mask",
    "score",
    LEVELS,
    Argument("attn_mask", None, place=0),
    place=2,
    decisions={
        "boolean mask": "True means may attend; broadcastable to … h l s",
        "float mask": "added to the scaled scores; may hold −inf; its gradient flows; has the query's dtype",
    },
    words={"bool_mask": "boolean masks", "float_mask": "float masks", "mask_gradient": "gradients of a float mask"},
    needed=_needed,
    conventions={"bool_mask": ("may_attend", "may_not")},
    adapt=_adapt,
    given=_given,
    visible=visible,
    added=_added,
    hides=("bool_mask", "float_mask"),
    oracle={"score": Step(_add, _add_back)},
    computed=Computed(
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
    refuse=_refuse,
    cases=_cases,
    also_called={
        "mask": "bool_mask",
        "attn_mask": "bool_mask",
        "masks": "bool_mask",
        "padding": "bool_mask",
        "key_padding_mask": "bool_mask",
        "bias": "float_mask",
        "attn_bias": "float_mask",
        "alibi": "float_mask",
    },
    in_torch=_in_torch,
    traits=_traits,
    says=lambda drawn: f"{drawn.kind} mask" + f", {drawn.pattern}, {drawn.axes}" * (drawn != Mask(drawn.kind)),
    typed=Typed(
        f"bool or float, then .PATTERN of {', '.join(TYPED)}, then .AXES of bhls, 1 for a broadcast one", read, written
    ),
)
