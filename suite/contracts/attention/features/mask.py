"""Masks, boolean and float: which keys a query may attend to, and what is added to the scores."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Conventions
from attnsuite.cases.case import Traits
from attnsuite.cases.covering import Contradiction
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.feature import Argument, Computed, Drawing, Feature, Grid, Levels, Step, Typed
from attnsuite.contracts.attention.lazily import np, torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.cases.tensors import Generator

    Array = np.ndarray[Any, Any]
    Pattern = Callable[[Generator, tuple[int, ...]], Array]
    from attnsuite.contracts.attention.computation.gradients import Gradients, Saved
    from attnsuite.contracts.attention.oracle import Array, Forward, Slopes


def everything(random: Generator, shape: tuple[int, ...]) -> Array:
    return np.ones(shape, dtype=bool)


def nothing(random: Generator, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, dtype=bool)


def random(random: Generator, shape: tuple[int, ...]) -> Array:
    """A third of the keys hidden, no row empty."""
    allowed: Array = random.random(shape) > 0.33
    rows = allowed[None] if allowed.ndim == 1 else allowed  # a view: … rows keys
    if 0 not in rows.shape:
        chosen = np.arange(rows.shape[-2])
        rows[..., chosen, (chosen * 3 + 1) % rows.shape[-1]] = True
    return allowed


def padding(random: Generator, shape: tuple[int, ...]) -> Array:
    """Each batch item has a length of its own; keys beyond it are hidden."""
    keys = shape[-1]
    lengths = (np.arange(shape[0]) * 3 + keys // 2) % keys + 1
    return np.broadcast_to(np.arange(keys) < lengths.reshape(-1, *[1] * (len(shape) - 1)), shape).copy()


def causal(random: Generator, shape: tuple[int, ...]) -> Array:
    return np.tril(np.ones(shape, dtype=bool))


def window(random: Generator, shape: tuple[int, ...]) -> Array:
    """A band of three keys around the own position (wrapping round, so that no row is empty)."""
    distance = (np.arange(shape[-2])[:, None] - np.arange(shape[-1])) % shape[-1]
    return np.broadcast_to(np.minimum(distance, shape[-1] - distance) <= 1, shape).copy()


def empty_rows(random: Generator, shape: tuple[int, ...]) -> Array:
    """The second and the last query of every head may attend to nothing."""
    allowed: Array = PATTERNS["random"](random, shape)
    allowed[..., [1 % shape[-2], -1], :] = False
    return allowed


def closed_rows(random: Generator, shape: tuple[int, ...]) -> Array:
    """Every third query, the first of all, is closed to all keys; the others are open to all."""
    open_row = np.arange(shape[-2]) % 3 != 0
    return np.broadcast_to(open_row[:, None], shape).copy()


def one_empty_row(random: Generator, shape: tuple[int, ...]) -> Array:
    """One query of one head of one batch item may attend to nothing."""
    allowed: Array = PATTERNS["random"](random, shape)
    allowed[(0,) * (len(shape) - 2)][0, :] = False
    return allowed


def late(random: Generator, shape: tuple[int, ...]) -> Array:
    """All keys but the last few are hidden: leading blocks wider than any usual tile hold nothing."""
    return np.broadcast_to(np.arange(shape[-1]) >= shape[-1] - 5, shape).copy()


def early(random: Generator, shape: tuple[int, ...]) -> Array:
    """All keys but the first few are hidden."""
    return np.broadcast_to(np.arange(shape[-1]) < 5, shape).copy()


def single(random: Generator, shape: tuple[int, ...]) -> Array:
    """Each query sees one key, a different one."""
    chosen = (np.arange(shape[-2]) * 5 + 2) % shape[-1]
    return np.broadcast_to(np.arange(shape[-1]) == chosen[:, None], shape).copy()


PATTERNS: dict[str, Any] = {
    function.__name__: function
    for function in (
        everything, nothing, random, padding, causal, window, empty_rows, closed_rows, one_empty_row, late, early, single,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Mask:
    """A mask to draw. `axes` names the axes it has, 1 for a broadcast one: "bhls", "b11s", "ls"."""

    kind: str = "bool"
    pattern: str = "random"
    axes: str = "bhls"
    hidden: float | str = -math.inf
    """What a float mask holds where attention is not allowed; "lowest" is the dtype's finfo.min."""

    def draw(self, random: Any, sizes: Any, dtype: torch.dtype) -> Tensor:
        """Without random numbers, a mask on the device `meta`."""
        size = {"b": sizes.batch, "h": sizes.heads, "l": sizes.queries, "s": sizes.keys, "1": 1}
        shape = tuple(size[axis] for axis in self.axes)
        if random is None:
            return torch.empty(shape, dtype=torch.bool if self.kind == "bool" else dtype, device="meta")
        allowed = PATTERNS[self.pattern](random, shape)
        if self.kind == "bool":
            return torch.from_numpy(allowed)
        hidden = torch.finfo(dtype).min if self.hidden == "lowest" else self.hidden
        bias = torch.from_numpy(random.normal(size=shape) * 2).to(dtype)
        return torch.where(torch.from_numpy(allowed), bias, torch.tensor(hidden, dtype=dtype))


AXES = (
    "bhls",
    "b11s",
    "b1ls",
    "1hls",
    "bh1s",
    "1h1s",
    "11ls",
    "bhl1",
    "hls",
    "h1s",
    "1ls",
    "1l1",
    "ls",
    "1s",
    "l1",
    "s",
)
"""The axes that a mask has, 1 for a broadcast one."""
HIDDEN_BY = {
    "random": {"pattern": "random"},
    "padding": {"pattern": "padding"},
    "late": {"pattern": "late"},
    "early": {"pattern": "early"},
    "lowest": {"pattern": "random", "hidden": "lowest"},
    "rows_of_1e9": {"pattern": "empty_rows", "hidden": -1e9},
}
"""Which keys are hidden. The last two are float masks that hide nothing, only lower the scores."""
LOWERED = ("lowest", "rows_of_1e9")
LAYOUTS = ("contiguous", "column_major", "strided", "sliced")


def _with(test: Any) -> tuple[str, ...]:
    return tuple(filter(test, AXES))


WITHOUT_ROWS = _with(lambda axes: "l" not in axes)
WITHOUT_COLUMNS = _with(lambda axes: "s" not in axes)
NOT_RANDOM = tuple(HIDDEN_BY)[1:]


def _leveled(of: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"mask": Mask(of["mask"], axes=of["mask_axes"], **of["mask_pattern"])} if of["mask"] else {}


def _only_with_a_mask(name: str) -> tuple[Contradiction, Contradiction]:
    """Of a factor that says more about masks: its first level stands where there is none, the others where there is."""
    first, *others = FACTORS[name]
    return (
        Contradiction(f"a mask has its {name}", {"mask": ("bool_mask", "float_mask"), name: (first,)}),
        Contradiction(f"without a mask there is no {name}", {"mask": ("no_mask",), name: others}),
    )


FACTORS: Mapping[str, Mapping[str, Any]] = {
    "mask": {"no_mask": None, "bool_mask": "bool", "float_mask": "float"},
    "mask_axes": {"no_axes": "", **{axes: axes for axes in AXES}},
    "mask_pattern": {"no_pattern": {}, **HIDDEN_BY},
    "attn_mask_layout": {"no_layout": "contiguous", **{f"mask_{layout}": layout for layout in LAYOUTS}},
}
LEVELS = Levels(
    FACTORS,
    _leveled,
    (
        *_only_with_a_mask("mask_axes"),
        *_only_with_a_mask("mask_pattern"),
        *_only_with_a_mask("attn_mask_layout"),
        Contradiction("only float masks lower scores", {"mask": ("bool_mask",), "mask_pattern": LOWERED}),
        Contradiction("only in float64 have scores of −1e9 any digits left", {"mask_pattern": ("rows_of_1e9",), "dtype": ("float32", "float16", "bfloat16")}),
        Contradiction("only float masks have gradients", {"mask": ("no_mask", "bool_mask"), "gradient": ("dqkv_mask",)}),
        Contradiction("a mask of rank 4 needs scores of rank 4", {"mask_axes": _with(lambda a: len(a) > 3), "rank": ("rank_3", "rank_2")}),
        Contradiction("a mask of rank 3 needs scores of rank 3", {"mask_axes": _with(lambda a: len(a) == 3), "rank": ("rank_2",)}),
        Contradiction("whole rows of −1e9 are rows of the mask", {"mask_pattern": ("rows_of_1e9",), "mask_axes": WITHOUT_ROWS}),
        Contradiction("keys are hidden by masks that have columns", {"mask_pattern": NOT_RANDOM, "mask_axes": WITHOUT_COLUMNS}),
        Contradiction("a mask of one axis lies row by row or with strides", {"mask_axes": ("s",), "attn_mask_layout": ("mask_column_major", "mask_sliced")}),
    ),
    lacked="masks",
)  # fmt: skip


TYPED = ("random", "padding", "causal", "window", "everything")
"""The patterns that a user may name: those that leave every query some key, in the order of their use."""


def read_mask(text: str) -> Mask:
    """The mask that a text names: its kind, then, where they are given, its pattern and its axes. ValueError for none."""
    kind, pattern, axes = (*text.split("."), "", "")[:3] if text.count(".") < 3 else ("", "", "")
    found = Mask(kind, pattern or Mask.pattern, axes or Mask.axes)
    rows = found.axes[-2:]
    if kind not in ("bool", "float") or found.pattern not in TYPED or not re.fullmatch("[b1][h1][l1][s1]", found.axes):
        raise ValueError(text)
    if found.pattern in ("causal", "window") and rows != "ls":
        raise ValueError(text)
    return found


def written_mask(mask: Mask) -> str:
    """The text of a mask, without what is usual."""
    pattern, axes = mask.pattern != Mask.pattern, mask.axes != Mask.axes
    return ".".join([mask.kind, *([mask.pattern] if pattern or axes else []), *([mask.axes] if axes else [])])


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
        f"bool or float, then .PATTERN of {', '.join(TYPED)}, then .AXES of bhls, 1 for a broadcast one",
        read_mask,
        written_mask,
    ),
)
