"""Small mistakes that kernels make where some levels meet and nowhere else: one key, one column, one number of a gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from attnsuite.cases.contract import LocalMutant
from attnsuite.cases.layouts import JUNK
from attnsuite.cases.mutants import Mutation, mutants, with_result
from attnsuite.contracts.attention.cases.combined.levels import BACKWARD
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense
from attnsuite.contracts.attention.computation.gradients import Backward, Gradients
from attnsuite.model import DTYPES

if TYPE_CHECKING:
    from torch import Tensor


def _without_a_key(scores: Tensor, call: AttentionCall) -> Tensor:
    """Weights as if one query could not attend to the key that it prefers: of the last head, the first query that sees
    most. Where none sees anything, the first query of that head attends to every key.
    """
    head = scores.detach().reshape(-1, *scores.shape[-2:])[-1]  # l s
    seen = (head > -math.inf).sum(-1)
    at = torch.zeros(scores.shape, dtype=torch.bool)
    of_head = at.view(-1, *head.shape)[-1]
    if not seen.any():
        of_head[0] = True
        return Dense.softmax(scores.masked_fill(at, 0.0), call)
    query = int(seen.argmax())
    of_head[query, int(head[query].argmax())] = True
    return Dense.softmax(scores.masked_fill(at, -math.inf), call)


def _last_column_unwritten(output: Tensor) -> Tensor:
    return torch.cat([output[..., :-1], torch.full_like(output[..., :1], JUNK)], -1)


def without_the_largest(gradient: Tensor) -> Tensor:
    """The gradient with 0 for its largest number; 1 for one number where all are 0."""
    flat = gradient.flatten().clone()
    place = flat.abs().argmax()
    flat[place] = 0.0 if flat[place] else 1.0
    return flat.view(gradient.shape)


def _lost_of(name: str) -> Mutation:
    def deliver(gradients: Gradients) -> Gradients:
        found = gradients.get(name)
        return gradients if found is None else {**gradients, name: without_the_largest(found)}

    return Mutation(f"the largest number of the gradient of {name} is lost", with_result(deliver), dtypes=DTYPES)


FORWARD = mutants(
    Dense,
    softmax={"one_query_loses_a_key": Mutation("one query loses the key it prefers", _without_a_key, dtypes=DTYPES)},
    finish={
        "last_column_is_not_written": Mutation("the last column of the output is not written",
            with_result(_last_column_unwritten), dtypes=DTYPES)
    },
)  # fmt: skip
WANTING = BACKWARD.factors["gradient"]
OF_GRADIENTS = {name: _lost_of(name) for names in WANTING.values() for name in names}


def local_mistakes() -> list[LocalMutant]:
    """Those of the output, wherever levels meet; those of a gradient, wherever it is asked for."""
    backward = mutants(
        Backward, deliver={**{f"gradient_of_{name}_loses_a_number": row for name, row in OF_GRADIENTS.items()}}
    )
    wanted = [frozenset(level for level, names in WANTING.items() if name in names) for name in OF_GRADIENTS]
    return [*map(LocalMutant, FORWARD), *map(LocalMutant, backward, wanted)]
