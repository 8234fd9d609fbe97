"""Dropout on the weights: exact where it can be, statistical where it must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from suite import asking
from suite.asking import Call, Conventions, Reply
from suite.contracts.attention.cases.case import Case, hold, judged, malformed
from suite.contracts.attention.cases.masks import Mask
from suite.judging import compare
from suite.judging.verdicts import Verdict
from suite.records import DTYPES

Array = np.ndarray[Any, Any]

FALSE_ALARM = 2e-11
"""How often one statistical judgement may accuse an honest implementation; a case makes 23 at most."""
LAGS = (1, 2, 3, 4, 8, 16, 32, 64, 128)
"""Distances at which masks are compared: neighbours, and whole tiles."""

INPUTS = ("query", "key", "value")
FAST = ("float32", "float16", "bfloat16")
"""Not in float64, whose extended-precision oracle is slow."""
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
        return (replace(self.of, name=self.name).call(dtype),)

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
                "wrong", f"dropout_p={call.options['dropout_p']} dropped {'nothing' if kept.all() else 'everything'}"
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
        return Verdict("wrong", said, output_wrong=True) if said else Verdict("passed")


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


def dropout() -> list[asking.Case]:
    """p = 0 and p = 1 exactly, masks read back exactly, and the statistics of many draws."""
    of = Case("dropout/base", "", queries=8, keys=8, width=8, draw="identity_values", dropout_p=0.4)
    tiled = replace(of, batch=1, heads=1, queries=24, keys=140, width=140)
    return [
        Case("dropout/zero", "p = 0 is exact", dropout_p=0.0),
        Case("dropout/zero_causal", "p = 0 is exact under causal", dropout_p=0.0, causal=True, queries=7),
        Case("dropout/zero_gradient", "p = 0 is exact backwards too", dropout_p=0.0, gradient_of=INPUTS),
        Case("dropout/one", "p = 1 gives zeros", dropout_p=1.0),
        Case("dropout/one_gradient", "p = 1 gives zero gradients", dropout_p=1.0, gradient_of=INPUTS),
        Kept("dropout/kept", "kept weights are multiplied by 1/(1 − p)", of),
        Kept("dropout/kept_causal", "the same under causal", replace(of, causal=True)),
        Kept("dropout/kept_masked", "the same under a mask", replace(of, mask=Mask())),
        Kept("dropout/kept_scaled", "the same with a scale", replace(of, scale=0.7)),
        Kept("dropout/kept_grouped", "the same with grouped heads", replace(of, heads=4, key_heads=2)),
        Kept("dropout/kept_biased", "the same with a float mask", replace(of, mask=Mask("float"))),
        Kept("dropout/kept_rank_3", "the same with one leading axis", replace(of, rank=3, batch=1, heads=6)),
        Kept("dropout/kept_empty_rows", "the same beside empty rows", replace(of, mask=Mask(pattern="empty_rows"))),
        Kept(
            "dropout/gradient_causal",
            "the same mask backwards under causal",
            replace(of, causal=True, gradient_of=INPUTS),
        ),
        Kept(
            "dropout/gradient_masked",
            "the same mask backwards under a mask",
            replace(of, mask=Mask(), gradient_of=INPUTS),
        ),
        Case("dropout/one_causal", "p = 1 gives zeros under causal", dropout_p=1.0, causal=True, queries=7),
        Case("dropout/one_masked", "p = 1 gives zeros under a mask", dropout_p=1.0, mask=Mask()),
        Case("dropout/one_value_width", "p = 1 gives zeros of the values' width", dropout_p=1.0, value_width=3),
        Kept("dropout/kept_rarely_dropped", "1/(1 − p) far from 1/p", replace(of, dropout_p=0.1)),
        Kept("dropout/kept_mostly_dropped", "1/(1 − p) is 5", replace(of, dropout_p=0.8)),
        Kept("dropout/kept_tiled", "across tiles", tiled),
        Kept("dropout/gradient", "the backward pass uses the forward's mask", replace(of, gradient_of=INPUTS)),
        Kept("dropout/gradient_query_alone", "the same with one input", replace(of, gradient_of=("query",))),
        Kept("dropout/gradient_tiled", "the forward's mask across tiles", replace(tiled, gradient_of=INPUTS), FAST),
        *(_many(f"dropout/share_{p}", "as many are kept as should be", share, p) for p in (0.1, 0.5)),
        *(_many(f"dropout/variance_rows_{p}", "independent within a row", rows_vary, p) for p in (0.1, 0.5)),
        *(_many(f"dropout/variance_columns_{p}", "independent within a column", columns_vary, p) for p in (0.1, 0.5)),
        *(
            _many(f"dropout/independent_{p}", "heads, items, rows and keys draw for themselves", neighbours, p)
            for p in (0.1, 0.5)
        ),
        Statistic(
            "dropout/far_apart",
            "no mask is used again in another tile",
            neighbours,
            p=0.4,
            batch=2,
            heads=8,
            size=256,
            dtypes=("float32", "float16"),
        ),
        Statistic("dropout/seeds", "torch.manual_seed governs the draw", seeds, seeds=(3, 3, 4)),
        Statistic("dropout/successive_calls", "the generator moves on", successive_calls, seeds=(3, None)),
    ]


def _many(name: str, why: str, judge: Judge, p: float) -> Statistic:
    return Statistic(name, why, judge, p, batch=16, heads=16, size=32)
