"""Cases that combine features: a covering array of their levels, in which every pair and every fused triple meets.

The array is data, in two files: rows in which every pair of levels meets, and more rows for the triples. Features name
their levels in their own files. After a change of levels, `python -m attnsuite.conformance.drawing attention` draws a
new array.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from attnsuite.cases import Case
from attnsuite.cases.contract import CoveringArray, LocalMutant
from attnsuite.cases.covering import Row, Space
from attnsuite.cases.layouts import JUNK
from attnsuite.cases.mutants import Mutation, mutants, with_result
from attnsuite.contracts.attention.cases.case import AttentionCase
from attnsuite.contracts.attention.cases.combined.levels import BACKWARD, LEVELS, cost
from attnsuite.contracts.attention.cases.dropout import kept
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense
from attnsuite.contracts.attention.computation.gradients import Backward, Gradients
from attnsuite.contracts.attention.feature import features
from attnsuite.model import COMBINED, DTYPES

if TYPE_CHECKING:
    from torch import Tensor


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
        passed |= part.arguments(values)
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
