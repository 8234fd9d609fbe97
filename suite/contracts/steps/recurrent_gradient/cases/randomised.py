"""Questions to randomised gradients: each answer is one of few, as often as it should be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from suite.asking import Call, Conventions, Reply
from suite.asking.question import DERIVED, Array, Question, dtype_of, first, numbers, row, unfit
from suite.contracts.steps.recurrent_gradient import oracle
from suite.judging import compare, shares
from suite.judging.precision import PRECISIONS, Bounded
from suite.judging.shares import Share, exactly
from suite.judging.verdicts import Verdict
from suite.records import Example, Status


@dataclass(frozen=True)
class Outcome:
    """One of the answers that a randomised gradient may give, and how likely it is.

    Answers that the bounds do not tell apart have one number.
    """

    probability: float
    answer: Bounded
    number: int
    kept: int
    """Through how many steps it flows."""


@dataclass(frozen=True)
class Randomised(Question):
    """A randomised gradient, asked once for each seed: every answer is one of 2^(T−1), each as often as it should be.

    The seed None goes on where the call before left the random source.
    """

    seeds: tuple[int | None, ...] = (0, 1, 2, 3)

    def calls(self, dtype: str) -> tuple[Call, ...]:
        (call,) = super().calls(dtype)
        return tuple(replace(call, seed=seed) for seed in self.seeds)

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> Any:
        (length, _), keep = calls[0].tensors["x"].shape, calls[0].options["keep"]
        assert isinstance(keep, float)
        found: list[Outcome] = []
        for probability, factors in oracle.outcomes(length, keep):
            drawn = replace(self, oracle=partial(oracle.recurrent_gradient, factors=factors))
            answer = Question.truth(drawn, calls[:1], conventions)
            same = (known.number for known in found if not _apart(answer, known.answer))
            number = next(same, len({known.number for known in found}))
            found.append(Outcome(probability, answer, number, sum(factor > 0 for factor in factors)))
        return found

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any) -> Verdict:
        outcomes: list[Outcome] = truth
        dtype, shape = getattr(torch, dtype_of(calls[0])), outcomes[0].answer.value.shape
        if complaint := next(filter(None, (unfit(reply, shape, dtype) for reply in replies)), None):
            return complaint
        nearest = [_nearest(reply, outcomes) for reply in replies]
        largest = max(ratio for ratio, _ in nearest)
        for number, (reply, (_, outcome)) in enumerate(zip(replies, nearest, strict=True), start=1):
            if off := compare.difference(_numbers(reply), outcome.answer.value, outcome.answer.bound):
                said = f"answer {number} is none of the {len(outcomes)} possible ones; beside the nearest, {off}"
                return Verdict(Status.WRONG, said, largest, output_wrong=True)
        if odd := shares.complaint(self.counted([outcome.number for _, outcome in nearest], outcomes)):
            return Verdict(Status.WRONG, odd, output_wrong=True)
        return Verdict(Status.PASSED, "", largest)

    def counted(self, came: list[int], outcomes: list[Outcome]) -> list[Share]:
        """How often one seed gave two answers, how often each came of a draw of its own, and how many steps were kept."""
        earliest: dict[int, int] = {}
        for seed, number in zip(self.seeds, came, strict=True):
            if seed is not None:
                earliest.setdefault(seed, number)
        pairs = list(zip(self.seeds, came, strict=True))
        differ = [number != earliest[seed] for seed, number in pairs if seed is not None]
        draws = [*earliest.values(), *(number for seed, number in pairs if seed is None)]
        found = [exactly("answers differ from the first of their seed", sum(differ), len(differ), 0.0)]
        for kind in sorted({outcome.number for outcome in outcomes}):
            share = min(1.0, sum(outcome.probability for outcome in outcomes if outcome.number == kind))
            found.append(exactly(f"answers are number {kind} of those possible", draws.count(kind), len(draws), share))
        kept = {outcome.number: outcome.kept for outcome in outcomes}
        if len(kept) == len(outcomes):  # the bounds tell all answers apart
            steps = max(kept.values())
            mean = sum(outcome.probability * outcome.kept for outcome in outcomes) / max(1, steps)
            through = sum(kept[number] for number in draws)
            found.append(exactly("steps are flowed back through", through, steps * len(draws), mean))
        return found

    def alike(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: Any) -> bool:
        """Whether every answer is among theirs, and each possible one comes as often."""
        outcomes: list[Outcome] = truth
        dtype, due = dtype_of(calls[0]), outcomes[0].answer
        if any(unfit(reply, due.value.shape, getattr(torch, dtype)) for reply in (*replies, *theirs)):
            return False
        known = [
            Bounded(values, due.bound + 8 * PRECISIONS[dtype].unit * np.nan_to_num(abs(values)))
            for values in _distinct(theirs)
        ]
        if any(min(_ratio(values, other) for other in known) > 1 for values in _distinct(replies)):
            return False
        came, come = ([_nearest(reply, outcomes)[1].number for reply in each] for each in (replies, theirs))
        return shares.alike(self.counted(came, outcomes), self.counted(come, outcomes))


@dataclass(frozen=True)
class Expected(Randomised):
    """A randomised gradient whose mean a document gives: the mean of all possible answers, by their probabilities."""

    given: float = 0.0
    dtypes: tuple[str, ...] = ("float64", "float32")

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any) -> Verdict:
        mean = self.mean(truth)
        if complaint := compare.difference(mean, np.full(mean.shape, self.given), np.array(DERIVED), name="the mean"):
            return Verdict(Status.WRONG, f"the document has another number: {complaint}")
        return super().verdict(calls, replies, truth)

    def mean(self, outcomes: list[Outcome]) -> Array:
        return np.array(sum(outcome.probability * outcome.answer.value.astype(np.float64) for outcome in outcomes))

    def example(self) -> Example:
        given, mean = numbers([self.given]), self.mean(self.truth(self.calls("float64"), {}))
        return row(self, "", first(mean, 6), f"not printed; derived from the definition: {first(given, 6)}")


def _nearest(reply: Reply, outcomes: list[Outcome]) -> tuple[float, Outcome]:
    """The possible answer that this one is nearest to, and how many bounds off."""
    ratios = [_ratio(_numbers(reply), outcome.answer) for outcome in outcomes]
    best = int(np.argmin(ratios))
    return ratios[best], outcomes[best]


def _apart(one: Bounded, other: Bounded) -> bool:
    """Whether nothing within the bounds of one is within those of the other."""
    return min(_ratio(one.value, other), _ratio(other.value, one)) > 2


def _distinct(replies: tuple[Reply, ...]) -> list[Array]:
    """The numbers of all answers, each once: of hundreds of draws there are few."""
    return list({values.tobytes(): values for values in map(_numbers, replies)}.values())


def _numbers(reply: Reply) -> Array:
    assert reply.output is not None
    return compare.numbers(reply.output)


def _ratio(values: Array, expected: Bounded) -> float:
    return compare.error_ratio(values, expected.value, expected.bound)
