"""Attention with dropout to time: what falls out is drawn, so its answers are held against what is drawn seldom."""

from __future__ import annotations

import math

import numpy as np

from attnsuite.contracts.attention import oracle
from attnsuite.contracts.attention.judging import ACCEPT_OUTPUT
from attnsuite.contracts.attention.workloads.workload import Workload
from attnsuite.judging.precision import Bounded

CHANCE = 1e-9
"""The probability with which an honest implementation may be accused in one round."""


class Dropped(Workload):
    """A workload whose weights fall out. Its gradients are not timed: they depend on what fell out, which nobody tells."""

    directions = ("forward",)

    def bounded(self, truth: oracle.Truth, value: oracle.Array, numbers: int) -> Bounded:
        """The output without dropout, and beside rounding how far a draw may lead away from it.

        `value` is s v, and `numbers` are judged in all. An output is a sum of independent draws with that mean, p_j v_j
        times 0 or 1/(1 − p). By Bernstein's inequality it lies further off than √(2 V L) + 2 M L / 3 with the
        probability 2 exp(−L) at most, V being the variance and M the most that one draw can be off.
        """
        p = float(self.values["dropout_p"])
        if p == 1:
            return truth.output
        terms = truth.weights.astype(np.float64)  # b h l s
        values = value.astype(np.float64)
        variance = (terms**2) @ (values**2) * (p / (1 - p))
        most = np.abs(terms[..., None] * values).max(-2) * max(p / (1 - p), 1.0)
        seldom = math.log(2 * numbers / CHANCE)
        drawn = np.sqrt(2 * variance * seldom) + 2 * most * seldom / 3
        # Kept weights are larger by 1/(1 − p), and so is what their rounding may be off by.
        return Bounded(truth.output.value, truth.output.bound / (1 - p) + drawn / ACCEPT_OUTPUT)
