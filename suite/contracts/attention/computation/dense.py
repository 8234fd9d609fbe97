"""The formula with the whole matrix of scores."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from attnsuite.cases.mutants import formula
from attnsuite.contracts.attention.computation.asked import Asked, check
from attnsuite.contracts.attention.computation.base import Computation, computed

if TYPE_CHECKING:
    from torch import Tensor


class Dense(Computation):
    """Attention as it is written down. Scores are ... h l s."""

    def __call__(self, asked: Asked) -> Any:
        asked = self.receive(asked)
        self.check(asked)
        query, key, value = self.widen(asked)
        key, value = self.spread(key, value, asked)
        weights = self.softmax(self.score(self.products(query, key), asked, asked.grid()), asked)
        for each in computed():
            if each.weigh:
                weights = each.weigh(self, weights, asked)
        return self.finish(self.combine(weights, value, asked), asked)

    receive = staticmethod(lambda asked: asked)

    @staticmethod
    def check(asked: Asked) -> None:
        check(asked)

    @staticmethod
    def widen(asked: Asked) -> tuple[Tensor, Tensor, Tensor]:
        wide = asked.accumulator
        return asked.query.to(wide), asked.key.to(wide), asked.value.to(wide)

    products = formula(lambda query, key: query @ key.transpose(-1, -2))  # ... h l s
    softmax = formula(lambda scores, asked: normalised((scores - largest_of(scores)).exp()))
    combine = formula(lambda weights, value, asked: weights @ value)  # ... h l v
    finish = staticmethod(lambda output, asked: output.to(asked.query.dtype))


def largest_of(scores: Tensor) -> Tensor:
    """The largest score of each row, without gradient; 0 where there is none: ... l 1."""
    if scores.shape[-1] == 0:
        return scores.new_zeros(*scores.shape[:-1], 1)
    largest = scores.detach().amax(-1, keepdim=True)
    return largest.masked_fill(largest == -math.inf, 0.0)


def normalised(powers: Tensor) -> Tensor:
    """Rows that sum to 1; an empty row is 0 / 1."""
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


correct = Dense()


class Whole(Computation):
    """The whole answer as one step, for mistakes around the formula."""

    def __call__(self, asked: Asked) -> Any:
        check(asked)
        return self.answer(asked)

    answer = staticmethod(correct)
