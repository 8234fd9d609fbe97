"""Masks: boolean ones hide keys, float ones are added to the scores; which ones are drawn, and how a user types one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Conventions
from attnsuite.cases.case import Traits
from attnsuite.cases.covering import Contradiction
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.feature import Argument, Feature, Grid, Hooks, Levels, Step, Syntax
from attnsuite.contracts.attention.lazily import np, torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.cases.tensors import Generator
    from attnsuite.contracts.attention.computation.gradients import Gradients, Saved
    from attnsuite.contracts.attention.oracle import Array, BackwardPass, ForwardPass

    Pattern = Callable[[Generator, tuple[int, ...]], Array]


def _random(random: Generator, shape: tuple[int, ...]) -> Array:
    """A third of the keys hidden. Each query sees its own position, so that no row is empty under causal either."""
    allowed: Array = random.random(shape) > 0.33
    rows = allowed[None] if allowed.ndim == 1 else allowed  # a view: … rows keys
    if 0 not in rows.shape:
        chosen = np.arange(rows.shape[-2])
        rows[..., chosen, chosen % rows.shape[-1]] = True
    return allowed


def _padding(random: Generator, shape: tuple[int, ...]) -> Array:
    """Each batch item has a length of its own; keys beyond it are hidden."""
    lengths = (np.arange(shape[0]) * 3 + shape[-1] // 2) % shape[-1] + 1
    return np.asarray(np.arange(shape[-1]) < lengths.reshape(-1, *[1] * (len(shape) - 1)))


def _window(random: Generator, shape: tuple[int, ...]) -> Array:
    """A band of three keys around the own position (wrapping round, so that no row is empty)."""
    distance = (np.arange(shape[-2])[:, None] - np.arange(shape[-1])) % shape[-1]
    return np.asarray(np.minimum(distance, shape[-1] - distance) <= 1)


def _empty_rows(random: Generator, shape: tuple[int, ...]) -> Array:
    """The second and the last query of every head may attend to nothing."""
    allowed = _random(random, shape)
    allowed[..., [1 % shape[-2], -1], :] = False
    return allowed


def _one_empty_row(random: Generator, shape: tuple[int, ...]) -> Array:
    """One query of one head of one batch item may attend to nothing."""
    allowed = _random(random, shape)
    allowed[(0,) * (len(shape) - 2)][0, :] = False
    return allowed


PATTERNS: dict[str, Pattern] = {
    "everything": lambda random, shape: np.ones(shape, dtype=bool),
    "nothing": lambda random, shape: np.zeros(shape, dtype=bool),
    "random": _random,
    "padding": _padding,
    "causal": lambda random, shape: np.tril(np.ones(shape, dtype=bool)),
    "window": _window,
    "empty_rows": _empty_rows,
    # every third query, the first of all, is closed to all keys; the others are open to all
    "closed_rows": lambda random, shape: np.arange(shape[-2])[:, None] % 3 != 0,
    "one_empty_row": _one_empty_row,
    # all keys but the last few are hidden: leading blocks wider than any usual tile hold nothing
    "late": lambda random, shape: np.arange(shape[-1]) >= shape[-1] - 5,
    "early": lambda random, shape: np.arange(shape[-1]) < 5,
    # each query sees one key, a different one
    "single": lambda random, shape: np.arange(shape[-1]) == (np.arange(shape[-2])[:, None] * 5 + 2) % shape[-1],
}
"""Functions of random numbers and a shape that return the visible keys, broadcastable to the shape."""


@dataclass(frozen=True)
class Mask:
    """A mask to draw. `axes` names the axes it has, 1 for a broadcast one: "bhls", "b11s", "ls"."""

    kind: str = "bool"
    pattern: str = "random"
    axes: str = "bhls"
    hidden: float | str = -math.inf
    """The number of a float mask for hidden keys; "lowest" is the dtype's finfo.min."""

    def draw(self, random: Any, sizes: Any, dtype: torch.dtype) -> Tensor:
        """Without random numbers, a mask on the device `meta`."""
        size = {"b": sizes.batch, "h": sizes.heads, "l": sizes.queries, "s": sizes.keys, "1": 1}
        shape = tuple(size[axis] for axis in self.axes)
        if random is None:
            return torch.empty(shape, dtype=torch.bool if self.kind == "bool" else dtype, device="meta")
        allowed = torch.from_numpy(np.broadcast_to(PATTERNS[self.pattern](random, shape), shape).copy())
        if self.kind == "bool":
            return allowed
        hidden = torch.finfo(dtype).min if self.hidden == "lowest" else self.hidden
        bias = torch.from_numpy(random.normal(size=shape) * 2).to(dtype)
        return torch.where(allowed, bias, torch.tensor(hidden, dtype=dtype))


TYPED = ("random", "padding", "causal", "window", "everything")
"""The patterns that a user may name: those that leave every query some key, in the order of their use."""


def read_mask(text: str) -> Mask:
    """The mask that a text names, `bool`, `float.padding`, `bool.causal.11ls`. ValueError for anything else."""
    kind, pattern, axes = (*text.split("."), "", "")[:3] if text.count(".") < 3 else ("", "", "")
    mask = Mask(kind, pattern or Mask.pattern, axes or Mask.axes)
    if kind not in ("bool", "float") or mask.pattern not in TYPED or not re.fullmatch("[b1][h1][l1][s1]", mask.axes):
        raise ValueError(text)
    if mask.pattern in ("causal", "window") and mask.axes[-2:] != "ls":
        raise ValueError(text)
    return mask


def written_mask(mask: Mask) -> str:
    """The text of a mask, without what is usual."""
    pattern, axes = mask.pattern != Mask.pattern, mask.axes != Mask.axes
    return ".".join([mask.kind, *([mask.pattern] if pattern or axes else []), *([mask.axes] if axes else [])])


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
