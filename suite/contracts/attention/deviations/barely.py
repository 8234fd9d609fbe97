"""Mistakes that are barely wrong: a few per dtype keep the tolerances honest.

Measured against the bound of a peaked softmax over 16 to 128 keys of width 64: the scale errors stand at 3 to 9 bounds,
the errors of the sum at 3 to 20; a correct computation stays under 0.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from suite.asking import Deviation
from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.staged import Dense, Whole, correct

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SCALE_ERROR = {"float64": 512, "float32": 512, "float16": 48, "bfloat16": 48}
"""In units of the roundoff."""
LONG_SCALE_ERROR = {"float64": 8192, "float32": 8192, "float16": 48, "bfloat16": 48}
SUM_ERROR = {"float64": 512, "float32": 512, "float16": 16, "bfloat16": 16}


def _dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def scale_off_by_a_little(name: str) -> Deviation:
    wrong = 1 + SCALE_ERROR[name] * ROUNDOFF[name]
    says = f"in {name}, the scale is too large by the factor 1 + {wrong - 1:.1e}"

    @instead_of(Dense.factor, says, name=f"scale_off_by_a_little_in_{name}", dtypes=(name,))
    def off(asked: Asked) -> float:
        return asked.factor * (wrong if asked.query.dtype == _dtype(name) else 1.0)

    return off


def scale_off_beyond_512_keys(name: str) -> Deviation:
    wrong = 1 + LONG_SCALE_ERROR[name] * ROUNDOFF[name]
    says = f"in {name} and beyond 512 keys, the scale is too large by the factor 1 + {wrong - 1:.1e}"

    @instead_of(Dense.factor, says, name=f"scale_off_beyond_512_keys_in_{name}", dtypes=(name,))
    def off(asked: Asked) -> float:
        return asked.factor * (wrong if asked.keys > 512 and asked.query.dtype == _dtype(name) else 1.0)

    return off


def sum_off_by_a_little(name: str) -> Deviation:
    wrong = 1 + SUM_ERROR[name] * ROUNDOFF[name]
    says = f"in {name}, the weights sum to 1 + {wrong - 1:.1e}"

    @instead_of(Dense.softmax, says, name=f"sum_off_by_a_little_in_{name}", dtypes=(name,))
    def off(scores: torch.Tensor, asked: Asked) -> torch.Tensor:
        return Dense.softmax(scores, asked) * (wrong if asked.query.dtype == _dtype(name) else 1.0)

    return off


@instead_of(Whole.answer, "the first key is not read when there are more than 1000")
def drops_one_of_a_thousand_keys(asked: Asked) -> Any:
    if asked.keys <= 1000:
        return correct(asked)
    first = torch.arange(asked.keys, device=asked.query.device) == 0
    return Dense(softmax=lambda scores, asked: Dense.softmax(scores.masked_fill(first, -torch.inf), asked))(asked)


def parametric() -> Iterator[Deviation]:
    for name in ROUNDOFF:
        yield scale_off_by_a_little(name)
        yield scale_off_beyond_512_keys(name)
        yield sum_off_by_a_little(name)
