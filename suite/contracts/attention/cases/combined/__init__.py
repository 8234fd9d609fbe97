"""Cases that combine features: a covering array of their levels, in which every pair and every fused triple meets.

The array is data, in two files: rows in which every pair of levels meets, and more rows for the triples. Features name
their levels in their own files. After a change of levels, `python -m attnsuite.conformance.drawing attention` draws a
new array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from attnsuite.cases import Case
from attnsuite.cases.contract import CoveringArray, LocalMutant
from attnsuite.cases.covering import Contradiction, Row, Space
from attnsuite.cases.layouts import INPUTS, JUNK
from attnsuite.cases.mutants import Mutation, mutants, with_result
from attnsuite.contracts.attention.cases.case import AttentionCase
from attnsuite.contracts.attention.cases.dropout import kept
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense
from attnsuite.contracts.attention.computation.gradients import Backward, Gradients
from attnsuite.contracts.attention.feature import Levels, features
from attnsuite.contracts.attention.features.heads import GROUPS, whole_groups
from attnsuite.model import COMBINED, DTYPES

if TYPE_CHECKING:
    from torch import Tensor


MOST_NUMBERS = {"float64": 2**16, "float32": 2**18, "float16": 2**18, "bfloat16": 2**18}
"""Most scores and numbers of inputs in a call, so that the oracle takes some ten milliseconds. For float64 it computes
in extended precision, for which processors have no vectors: that takes several times as long."""

SIZES = {
    "tiny": (5, 7),
    "ragged_tile": (77, 77),  # a tile of 64 and a part of one
    "square_tile": (64, 64),
    "whole_tiles": (128, 256),
    "several_tiles": (100, 140),
    "one_query": (1, 300),
    "many_keys": (3, 2100),
    "many_queries": (2100, 3),
}
"""Queries and keys. Kernels take tiles of 16 to 128 of each, and whole tiles on a path without bounds checks. Where there are as many keys as queries, causal attention
sees the last key; where there are more, it sees none of the last ones."""
ITEMS = {"few_heads": (2, 4), "one_head": (1, 1), "six_heads": (1, 6), "many_heads": (1, 34), "many_items": (17, 2)}
"""Batch items and heads: fewer and more than 32, which is how many some kernels take at a time."""
WIDTHS = (8, 40, 64, 65, 80, 96, 128, 192, 256, 576)
"""Widths that kernels support, some between these, and one beyond all."""
EXPANDED = ("expanded", "expanded_items", "expanded_heads")
LAYOUTS = ("contiguous", "transposed_heads", "time_major", "column_major", "sliced", "offset", *EXPANDED)
UPSTREAM_LAYOUTS = ("contiguous", "transposed_heads", "column_major", "sliced", "expanded_rows")
DRAWS = ("peaked", "offset_values", "opposite_logits", "uneven_sizes", "identity_values")
GRADIENTS: Mapping[str, tuple[str, ...]] = {"no_gradient": (), **{f"d{name[0]}": (name,) for name in INPUTS},
    "dqv": ("query", "value"), "dkv": ("key", "value"), "dqkv": INPUTS}  # fmt: skip
OF_MASKS: Mapping[str, tuple[str, ...]] = {"dq_mask": ("query", "attn_mask"), "dv_mask": ("value", "attn_mask"),
    "dqkv_mask": (*INPUTS, "attn_mask")}  # fmt: skip
"""The inputs whose gradients are requested, which choose the kernels of a backward pass; with the mask's, and without."""
OF_SINKS: Mapping[str, tuple[str, ...]] = {"dqkv_sinks": (*INPUTS, "sinks")}
WANTED = (*tuple(GRADIENTS)[1:], *OF_MASKS, *OF_SINKS)
MODES: Mapping[str, Mapping[str, bool]] = {"grad": {}, "no_grad": {"grad_mode": False},
    "inference": {"inference": True}}  # fmt: skip


WIDTH = {f"e{width}": width for width in WIDTHS}
Width = Callable[[int, int], int]
VALUE_WIDTHS: Mapping[str, Width] = {
    "equal_v": lambda width, keys: width,
    "wider_v": lambda width, keys: width + 9,
    "odd_v": lambda width, keys: width // 2 + 1,
    "half_v": lambda width, keys: width // 2,
    "latent_v": lambda width, keys: width - 64,  # of 192 and 576: keys with 64 columns of positions besides
    "square_v": lambda width, keys: keys,
}


def takes_long(size: str, width: str, items: str, key_heads: str, dtype: str, value_width: str) -> bool:
    """Whether the oracle would take too long for a row."""
    return _numbers(size, width, items, key_heads, value_width) > MOST_NUMBERS[dtype]


def _numbers(size: str, width: str, items: str, key_heads: str, value_width: str) -> int:
    """The number of scores and of numbers in the inputs."""
    (queries, keys), (batch, heads), width_of_keys = SIZES[size], ITEMS[items], WIDTH[width]
    values = VALUE_WIDTHS[value_width](width_of_keys, keys)
    numbers = queries * keys + (queries + keys) * width_of_keys + keys * values
    return batch * whole_groups(heads, GROUPS[key_heads]) * numbers


def cost(row: Row) -> float:
    """The time of a row's test, about, in ms: for Python, then for each number in float64, or in extended precision."""
    numbers = _numbers(*(row[name] for name in ("size", "width", "items", "key_heads", "value_width")))
    passes = (1 if row["gradient"] == "no_gradient" else 2.5) * (4 if row["dtype"] == "float64" else 1)
    return 3 + 1e-4 * numbers * passes


SHORTEST = {"size": "tiny", "width": "e8", "items": "one_head", "key_heads": "own_kv", "dtype": "float32",
    "value_width": "half_v"}  # fmt: skip
"""The shortest level of each factor on which the time of an oracle depends."""


def _sized(levels: Mapping[str, Any]) -> Mapping[str, Any]:
    (queries, keys), (batch, heads) = levels["size"], levels["items"]
    return {"queries": queries, "keys": keys, "batch": batch, "heads": heads, "width": levels["width"],
        "rank": levels["rank"]}  # fmt: skip


def _levels(prefix: str, names: tuple[str, ...]) -> dict[str, str]:
    return {f"{prefix}_{name}": name for name in names}


SHAPES = Levels(
    {"size": SIZES, "items": ITEMS, "width": WIDTH, "rank": {"rank_4": 4, "rank_3": 3, "rank_2": 2}},
    _sized,
    (
        Contradiction("its oracle would take long", {"size": SIZES, "width": WIDTH, "items": ITEMS, "key_heads": GROUPS,
            "dtype": DTYPES, "value_width": VALUE_WIDTHS}, takes_long, SHORTEST),
        Contradiction("rank 3 has an axis of heads alone", {"rank": ("rank_3",), "items": ("few_heads", "many_items")}),
        Contradiction("rank 2 has no leading axis",
            {"rank": ("rank_2",), "items": tuple(name for name in ITEMS if name != "one_head")}),
    ),
)  # fmt: skip

DRAWN = Levels(
    {"draw": {name: name for name in DRAWS}},
    contradictions=(
        Contradiction("in bfloat16, scores near −200 say nothing about weights",
            {"draw": ("opposite_logits",), "dtype": ("bfloat16",)}),
    ),
)  # fmt: skip
VALUES = Levels(
    {"value_width": VALUE_WIDTHS},
    lambda levels: {"value_width": levels["value_width"](levels["width"], levels["size"][1])},
    (
        Contradiction("values are the identity where they have a column for each key",
            {"value_width": tuple(VALUE_WIDTHS)[:-1], "draw": ("identity_values",)}),
        Contradiction("values have a column for each key where they are the identity",
            {"value_width": ("square_v",), "draw": DRAWS[:-1]}),
        Contradiction("only keys wider than 64 have 64 columns that values lack",
            {"value_width": ("latent_v",), "width": tuple(name for name, width in WIDTH.items() if width <= 64)}),
    ),
    unsupported="value widths",
)  # fmt: skip


def _laid(levels: Mapping[str, Any]) -> Mapping[str, Any]:
    names = (*INPUTS, "output_gradient", "attn_mask")
    return {"layout": {name: levels[f"{name}_layout"] for name in names if levels[f"{name}_layout"] != "contiguous"}}


TENSORS = {"query": "q", "key": "k", "value": "v", "output_gradient": "do"}
"""The tensors that lie in memory one way or another, and what levels call each."""


def _places(letter: str, layouts: tuple[str, ...]) -> tuple[Contradiction, ...]:
    """Contradictions of a tensor's layouts, which need axes that it has."""
    name = next(name for name, short in TENSORS.items() if short == letter)
    heads = Contradiction(
        "heads are not an axis of rank 2", {f"{name}_layout": (f"{letter}_transposed_heads",), "rank": ("rank_2",)}
    )
    items = Contradiction("items and heads are axes of rank 4",
        {f"{name}_layout": tuple(_levels(letter, ("time_major", *EXPANDED))), "rank": ("rank_3", "rank_2")})  # fmt: skip
    return (heads, items) if "expanded" in layouts else (heads,)


PLACES = Levels({f"{name}_layout": _levels(TENSORS[name], LAYOUTS) for name in INPUTS}, lambda levels: {},
    tuple(contradiction for name in INPUTS for contradiction in _places(TENSORS[name], LAYOUTS)))  # fmt: skip
UPSTREAM = Levels({"output_gradient_layout": {"no_do": "contiguous", **_levels("do", UPSTREAM_LAYOUTS)}}, _laid,
    _places("do", UPSTREAM_LAYOUTS), unsupported="gradients")  # fmt: skip
BACKWARD = Levels(
    {"gradient": {**GRADIENTS, **OF_MASKS, **OF_SINKS}},
    lambda levels: {"gradient_of": levels["gradient"]},
    (
        Contradiction("an output gradient is passed where gradients are requested",
            {"gradient": WANTED, "output_gradient_layout": ("no_do",)}),
        Contradiction("without gradients there is no output gradient",
            {"gradient": ("no_gradient",), "output_gradient_layout": tuple(_levels("do", UPSTREAM_LAYOUTS))}),
        Contradiction("in half types, gradients of values near 1,000 are what rounding leaves of them",
            {"gradient": WANTED, "draw": ("offset_values",), "dtype": ("float16", "bfloat16")}),
        Contradiction("there are gradients only in grad mode", {"gradient": WANTED, "mode": ("no_grad", "inference")}),
    ),
    unsupported="gradients",
)  # fmt: skip

MODE = Levels({"mode": MODES}, lambda levels: levels["mode"])
PRECISION = Levels({"dtype": {dtype: dtype for dtype in DTYPES}}, lambda levels: {"dtypes": (levels["dtype"],)})

LEVELS = (SHAPES, VALUES, DRAWN, PLACES, UPSTREAM, BACKWARD, MODE, PRECISION)


FUSED = tuple(("size", "width", visibility, "gradient") for visibility in ("mask", "causal", "window"))
"""Factors that kernels fuse: every triple of their levels meets."""
FURTHER = ("soft caps", "sinks", "log-sum-exps")
"""Options that most implementations lack."""
OPTIONS = ("scales", "causal", "grouped heads", "dropout", "masks", "windows", *FURTHER)
"""The features that are options of the function."""
LACKING = (
    ("gradients", "value widths", *OPTIONS),
    OPTIONS,  # a function of query, key and value
    ("dropout", "masks", "windows", *FURTHER),
    ("windows", *FURTHER),  # PyTorch's SDPA
    ("masks", *FURTHER),
    FURTHER,
)
"""Features that implementations lack together: every pair of the other levels meets in cases without them."""
ALL_LEVELS = (*LEVELS, *(feature.levels for feature in features()))
"""The general levels, then those of each feature."""


SPACE = Space(
    {name: tuple(levels) for part in ALL_LEVELS for name, levels in part.factors.items()},
    [contradiction for part in ALL_LEVELS for contradiction in part.contradictions],
    FUSED,
    [[name for part in ALL_LEVELS if part.unsupported in lacking for name in part.factors] for lacking in LACKING],
    cost,
)


def case(row: Row) -> Case:
    """The case that combines these levels; its name says which are unusual."""
    values = {name: levels[row[name]] for part in ALL_LEVELS for name, levels in part.factors.items()}
    passed: dict[str, Any] = {}
    for part in ALL_LEVELS:
        passed |= part.arguments(values) if part.arguments else {name: values[name] for name in part.factors}
    levels = SPACE.write(row)
    made = AttentionCase(f"{COMBINED}/{levels}", "features meet", **passed)
    return kept(made.name, made.why, made, made.dtypes) if row["dropout"] == "dropout" else made


@cache
def array() -> CoveringArray:
    """The array of the contract."""
    return CoveringArray(SPACE, case, local_mistakes, Path(__file__).parent)


def without_a_key(scores: Tensor, call: AttentionCall) -> Tensor:
    """Weights as if one query could not attend to the key that it prefers: of the last head, the first query that sees
    most. Where none sees two of several keys, the first query attends to all: dropout may lose a single one.
    """
    head = scores.detach().reshape(-1, *scores.shape[-2:])[-1]  # l s
    seen = (head > -math.inf).sum(-1)
    at = torch.zeros(scores.shape, dtype=torch.bool)
    of_head = at.view(-1, *head.shape)[-1]
    if seen.max() < 2 <= scores.shape[-1]:
        of_head[0] = True
        return Dense.softmax(scores.masked_fill(at, 0.0), call)
    query = int(seen.argmax())
    of_head[query, int(head[query].argmax())] = True
    return Dense.softmax(scores.masked_fill(at, -math.inf), call)


def last_column_unwritten(output: Tensor) -> Tensor:
    return torch.cat([output[..., :-1], torch.full_like(output[..., :1], JUNK)], -1)


def without_the_largest(gradient: Tensor) -> Tensor:
    """The gradient with 0 for its largest number; 1 for one number where all are what rounding leaves of 0."""
    flat = gradient.flatten().clone()
    place = flat.abs().argmax()
    flat[place] = 0.0 if flat[place].abs() > torch.finfo(flat.dtype).eps else 1.0
    return flat.view(gradient.shape)


def _lost_of(name: str) -> Mutation:
    def deliver(gradients: Gradients) -> Gradients:
        gradient = gradients.get(name)
        return gradients if gradient is None else {**gradients, name: without_the_largest(gradient)}

    return Mutation(f"the largest number of the gradient of {name} is lost", with_result(deliver), dtypes=DTYPES)


def local_mistakes() -> list[LocalMutant]:
    """Mutants of the output, possible in all rows, and of a gradient, possible where it is requested."""
    lost_key, unwritten = mutants(
        Dense,
        softmax={"one_query_loses_a_key": Mutation("one query loses the key it prefers", without_a_key, dtypes=DTYPES)},
        finish={"last_column_is_not_written": Mutation("the last column of the output is not written",
            with_result(last_column_unwritten), dtypes=DTYPES)},
    )  # fmt: skip
    levels = BACKWARD.factors["gradient"].items()
    where = {name: frozenset(level for level, of in levels if name in of) for _, names in levels for name in names}
    backward = mutants(Backward, deliver={f"gradient_of_{name}_loses_a_number": _lost_of(name) for name in where})
    no_weights = frozenset({"dropout_1"})  # so that none of them matters
    return [
        LocalMutant(lost_key, never=no_weights),
        LocalMutant(unwritten),
        *map(LocalMutant, backward, where.values()),
    ]
