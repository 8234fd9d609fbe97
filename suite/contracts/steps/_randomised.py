"""Randomised gradients: each result is one of few, and comes as often as its probability says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from attnsuite.cases import Calls, CaseWrapper, Conventions, Replies, Reply
from attnsuite.cases.documented import DERIVED, example, first_numbers
from attnsuite.cases.expected import WithinBounds
from attnsuite.cases.formula import FormulaCase
from attnsuite.cases.tensors import PRECISE, Array, numbers
from attnsuite.judging import compare, shares
from attnsuite.judging.patterns import Seeds
from attnsuite.judging.shares import Share, exactly
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Example, Figures, Status

SEEDS = (0, 1, 2, 3)
"""The seeds of most cases."""
DISTINCT = 2.0
"""Two possible results this many bounds apart, measured both ways, are distinguishable."""


def outcomes(length: int, keep: float) -> Iterator[tuple[float, tuple[float, ...]]]:
    """Each draw of ξ from the second step on, with its probability."""
    for kept in product((False, True), repeat=length - 1):
        probability = float(np.prod([keep if flag else 1 - keep for flag in kept]))
        yield probability, tuple(1 / keep if flag else 0.0 for flag in kept)


@dataclass(frozen=True)
class Possible:
    """A possible result of a randomised gradient. Results that the bounds cannot distinguish share a number."""

    probability: float
    expected: WithinBounds
    number: int
    kept: int
    """The number of steps that the gradient flows through."""


class Randomised(CaseWrapper):
    """A randomised gradient, once for each seed: each of 2^(T−1) results comes as often as its probability says.

    The seed None continues where the call before left the random source.
    """

    base: FormulaCase

    def __init__(self, base: FormulaCase, seeds: Seeds = SEEDS) -> None:
        super().__init__(base)
        self.seeds = tuple(seeds)

    def calls(self, dtype: str) -> Calls:
        (call,) = self.base.calls(dtype)
        return tuple(replace(call, seed=seed) for seed in self.seeds)

    def expected(self, calls: Calls, conventions: Conventions) -> list[Possible]:
        (length, _), keep = calls[0].tensors["x"].shape, calls[0].options["keep"]
        assert isinstance(keep, float)
        results: list[Possible] = []
        for probability, factors in outcomes(length, keep):
            result = self.base.formula.expected_output(calls[0], conventions, factors=factors)
            same = (known.number for known in results if not _distinguishable(result, known.expected))
            number = next(same, len({known.number for known in results}))
            results.append(Possible(probability, result, number, sum(factor > 0 for factor in factors)))
        return results

    def verdict(self, calls: Calls, replies: Replies, expected: Sequence[Possible]) -> Verdict:
        if complaint := _unfit(replies, expected):
            return complaint
        nearest = [_nearest(reply, expected) for reply in replies]
        largest = max(ratio for ratio, _ in nearest)
        for number, (reply, (_, possible)) in enumerate(zip(replies, nearest, strict=True), start=1):
            if off := compare.difference(
                _numbers(reply), possible.expected.output.value, possible.expected.output.bound
            ):
                says = f"result {number} equals none of the {len(expected)} possible ones; the nearest: {off}"
                return Verdict(Status.FAILED, says, largest, output_wrong=True)
        if odd := shares.complaint(self.counted([possible.number for _, possible in nearest], expected)):
            return Verdict(Status.FAILED, odd, output_wrong=True)
        return Verdict(Status.PASSED, "", largest)

    def counted(self, actual: Sequence[int], expected: Sequence[Possible]) -> list[Share]:
        """Results that differ for one seed, each possible result, and the steps that were kept."""
        earliest: dict[int, int] = {}
        for seed, number in zip(self.seeds, actual, strict=True):
            if seed is not None:
                earliest.setdefault(seed, number)
        pairs = list(zip(self.seeds, actual, strict=True))
        differ = [number != earliest[seed] for seed, number in pairs if seed is not None]
        draws = [*earliest.values(), *(number for seed, number in pairs if seed is None)]
        repeated = exactly("results differ from the first of their seed", sum(differ), len(differ), 0.0)
        return [repeated, *_each(draws, expected), *_kept(draws, expected)]

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: Sequence[Possible]) -> bool:
        """Whether every result is among theirs, and each possible one comes as often."""
        if _unfit((*replies, *theirs), expected):
            return False
        if not all(
            any(expected[0].expected.equal(our, their) for their in _distinct(theirs)) for our in _distinct(replies)
        ):
            return False
        ours, others = ([_nearest(reply, expected)[1].number for reply in side] for side in (replies, theirs))
        return shares.alike(self.counted(ours, expected), self.counted(others, expected))


class DocumentedMean(Randomised):
    """A randomised gradient whose mean a document gives: the mean of all possible results, by their probabilities."""

    def __init__(self, base: FormulaCase, figures: Figures, seeds: Seeds) -> None:
        super().__init__(base, seeds)
        self.figures, self.source, self.dtypes = figures, figures.source, PRECISE

    def verdict(self, calls: Calls, replies: Replies, expected: Sequence[Possible]) -> Verdict:
        mean = self.mean(expected)
        printed = np.full(mean.shape, self.figures.values)
        if complaint := compare.difference(mean, printed, np.array(DERIVED), name="the mean"):
            return Verdict(Status.FAILED, f"the document has another number: {complaint}")
        return super().verdict(calls, replies, expected)

    def mean(self, expected: Sequence[Possible]) -> Array:
        """The mean of all results."""
        return np.array(sum(possible.probability * possible.expected.numbers for possible in expected))

    def example(self) -> Example:
        printed = first_numbers(numbers([self.figures.values]), 6)
        mean = first_numbers(self.mean(self.expected(self.calls("float64"), {})), 6)
        return example(self.name, self.figures.source, "", mean, f"not printed; derived from the definition: {printed}")


def _each(draws: Sequence[int], expected: Sequence[Possible]) -> list[Share]:
    """The count of each possible result."""
    counts = []
    for kind in sorted({possible.number for possible in expected}):
        share = min(1.0, sum(possible.probability for possible in expected if possible.number == kind))
        says = f"results are number {kind} of those possible"
        counts.append(exactly(says, list(draws).count(kind), len(draws), share))
    return counts


def _kept(draws: Sequence[int], expected: Sequence[Possible]) -> list[Share]:
    """The steps that all draws flow back through, where the bounds distinguish all results."""
    kept = {possible.number: possible.kept for possible in expected}
    if len(kept) < len(expected):
        return []
    steps = max(kept.values())
    mean = sum(possible.probability * possible.kept for possible in expected) / max(1, steps)
    through = sum(kept[number] for number in draws)
    return [exactly("steps are flowed back through", through, steps * len(draws), mean)]


def _unfit(replies: Sequence[Reply], expected: Sequence[Possible]) -> Verdict | None:
    return next(filter(None, (expected[0].expected.form.unfit(reply) for reply in replies)), None)


def _nearest(reply: Reply, expected: Sequence[Possible]) -> tuple[float, Possible]:
    """The nearest possible result, and the distance in bounds."""
    ratios = [_ratio(_numbers(reply), possible.expected) for possible in expected]
    best = int(np.argmin(ratios))
    return ratios[best], expected[best]


def _distinguishable(one: WithinBounds, other: WithinBounds) -> bool:
    """Whether nothing within the bounds of one is within those of the other."""
    return min(_ratio(one.output.value, other), _ratio(other.output.value, one)) > DISTINCT


def _distinct(replies: Sequence[Reply]) -> list[Reply]:
    """One reply for each result: of hundreds of draws few are distinct."""
    return list({_numbers(reply).tobytes(): reply for reply in replies}.values())


def _numbers(reply: Reply) -> Array:
    assert reply.output is not None
    return compare.numbers(reply.output)


def _ratio(values: Array, expected: WithinBounds) -> float:
    return compare.error_ratio(values, expected.output.value, expected.output.bound)
