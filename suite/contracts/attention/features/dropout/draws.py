"""How drawn masks of dropout are judged: exactly where they can be read back, by statistics where they must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from suite import asking
from suite.asking import Call, Conventions, Reply
from suite.contracts.attention.cases.case import Case, hold, judged, malformed
from suite.judging import compare
from suite.judging.verdicts import Verdict
from suite.records import DTYPES, Status

Array = np.ndarray[Any, Any]

FALSE_ALARM = 2e-11
"""How often one statistical judgement may accuse an honest implementation; a case makes 23 at most."""
LAGS = (1, 2, 3, 4, 8, 16, 32, 64, 128)
"""Distances at which masks are compared: neighbours, and whole tiles."""

Judge = Callable[[tuple[Call, ...], list[Array], float], str | None]


@dataclass(frozen=True)
class Kept(asking.Case):
    """Read the dropped weights off an output over identity values, then hold output and gradients against that very mask.

    Values are the identity, so the output is the weights after dropout: zero where dropped. A second call with the same
    seed must drop the same ones, and gradients must use the mask of their own forward pass.
    """

    name: str
    why: str
    of: Case
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> tuple[Call, ...]:
        return (self.of.but(name=self.name).call(dtype),)

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> Conventions:
        return conventions  # the rest depends on which weights were kept

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Conventions) -> Verdict:
        call, reply = calls[0], replies[0]
        if complaint := malformed(call, reply):
            return complaint
        assert reply.output is not None
        kept = compare.numbers(reply.output) != 0
        if kept.all() or not kept.any():
            return Verdict(
                Status.WRONG,
                f"dropout_p={call.options['dropout_p']} dropped {'nothing' if kept.all() else 'everything'}",
            )
        return hold(call, reply, judged(call, truth, kept=kept))


@dataclass(frozen=True)
class Statistic(asking.Case):
    """Many draws at once, judged by `judge` from the kept pattern of each call (b h l s booleans)."""

    name: str
    why: str
    judge: Judge
    p: float = 0.3
    seeds: tuple[int | None, ...] = (11,)
    batch: int = 8
    heads: int = 8
    size: int = 16
    dtypes: tuple[str, ...] = ("float32",)

    def calls(self, dtype: str) -> tuple[Call, ...]:
        case = Case(
            self.name, self.why, batch=self.batch, heads=self.heads, queries=self.size, keys=self.size, width=self.size,
            draw="uniform_identity", dropout_p=self.p,
        )  # fmt: skip
        return tuple(replace(case.call(dtype), seed=seed) for seed in self.seeds)

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> float:
        return self.p

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: float) -> Verdict:
        for call, reply in zip(calls, replies, strict=True):
            if complaint := malformed(call, reply):
                return complaint
        kept = [compare.numbers(reply.output) != 0 for reply in replies if reply.output is not None]
        said = self.judge(calls, kept, truth)
        return Verdict(Status.WRONG, said, output_wrong=True) if said else Verdict(Status.PASSED)


def share(calls: tuple[Call, ...], kept: list[Array], p: float) -> str | None:
    """The number of kept weights lies within binomial limits."""
    count, total = int(kept[0].sum()), kept[0].size
    low, high = binomial(total, 1 - p)
    if low <= count <= high:
        return None
    return f"kept {count} of {total} weights at p = {p}, should keep between {low} and {high}"


def rows_vary(calls: tuple[Call, ...], kept: list[Array], p: float) -> str | None:
    """The variance of the count per row is that of independent draws (a chi-squared sum over rows)."""
    return _dispersion(kept[0].sum(-1), kept[0].shape[-1], p, "rows")


def columns_vary(calls: tuple[Call, ...], kept: list[Array], p: float) -> str | None:
    """The variance of the count per key over queries is that of independent draws."""
    return _dispersion(kept[0].sum(-2), kept[0].shape[-2], p, "columns")


def neighbours(calls: tuple[Call, ...], kept: list[Array], p: float) -> str | None:
    """Places some steps apart agree as often as independent draws do, along each axis and for many distances."""
    for axis, name in enumerate(("batch items", "heads", "queries", "keys")):
        places = np.moveaxis(kept[0], axis, 0)
        for lag in (lag for lag in LAGS if 2 * lag <= len(places)):
            blocks = places[: len(places) // (2 * lag) * (2 * lag)].reshape(-1, 2, lag, *places.shape[1:])
            even = blocks[:, 0] == blocks[:, 1]  # pairs of places that share none
            low, high = binomial(even.size, p * p + (1 - p) ** 2)
            if not low <= int(even.sum()) <= high:
                agree = f"{int(even.sum())} of {even.size} places, should between {low} and {high}"
                return f"the masks of {name} {lag} apart agree in {agree}"
    return None


def seeds(calls: tuple[Call, ...], kept: list[Array], p: float) -> str | None:
    """The same seed drops the same weights, another seed others."""
    for i, left in enumerate(calls):
        for j, right in enumerate(calls[:i]):
            equal = bool((kept[i] == kept[j]).all())
            if equal != (left.seed == right.seed):
                return "one seed gave two masks" if left.seed == right.seed else "two seeds gave one mask"
    return None


def successive_calls(calls: tuple[Call, ...], kept: list[Array], p: float) -> str | None:
    """Without a new seed the next call draws anew."""
    agree = kept[0] == kept[1]
    low, high = binomial(agree.size, p * p + (1 - p) ** 2)
    return (
        None
        if low <= int(agree.sum()) <= high
        else f"two calls in a row agree in {int(agree.sum())} of {agree.size} places"
    )


def binomial(total: int, probability: float) -> tuple[int, int]:
    """Limits that an honest count leaves with probability FALSE_ALARM at most."""
    from scipy import stats  # takes a second, of every process, for these few cases

    low, high = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], total, probability)
    return int(low), int(high)


def _dispersion(counts: Array, draws: int, p: float, what: str) -> str | None:
    variance = draws * p * (1 - p)
    statistic = float(((counts - draws * (1 - p)) ** 2).sum() / variance)
    # counts are binomial, whose variance of squares exceeds the normal one by a known excess: widen by it
    mean, deviation = counts.size, np.sqrt(counts.size * (2 + (1 - 6 * p * (1 - p)) / variance))
    limit = -NormalDist().inv_cdf(FALSE_ALARM / 2) * deviation * 1.3
    if abs(statistic - mean) <= limit:
        return None
    return f"counts per {what} vary {statistic / mean:.2f} times as much as independent draws do"


KEPT = Case("dropout/base", "", queries=8, keys=8, width=8, draw="identity_values", dropout_p=0.4)
"""What most masks are read off: small, its values the identity."""
