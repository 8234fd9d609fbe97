"""Randomised gradients: each answer is one of few, as often as it should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnsuite.cases import Calls, CaseWrapper, Conventions, Replies, Reply
from attnsuite.cases.documented import DERIVED, example, first_numbers
from attnsuite.cases.expected import WithinBounds
from attnsuite.cases.formula import FormulaCase
from attnsuite.cases.tensors import PRECISE, Array, numbers
from attnsuite.contracts.steps.recurrent_gradient import oracle
from attnsuite.judging import compare, shares
from attnsuite.judging.patterns import Seeds
from attnsuite.judging.shares import Share, exactly
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Example, Figures, Status

SEEDS = (0, 1, 2, 3)
"""Those of most cases."""
APART = 2.0
"""Bounds between two possible answers, counted both ways, beyond which they can be told apart."""


@dataclass(frozen=True)
class Possible:
    """One of the answers that a randomised gradient may give, and how likely it is.

    Answers that the bounds do not tell apart have one number.
    """

    probability: float
    due: WithinBounds
    number: int
    kept: int
    """Through how many steps it flows."""


class Randomised(CaseWrapper):
    """A randomised gradient, asked once for each seed: every answer is one of 2^(T−1), each as often as it should be.

    The seed None goes on where the call before left the random source.
    """

    of: FormulaCase

    def __init__(self, of: FormulaCase, seeds: Seeds = SEEDS) -> None:
        super().__init__(of)
        self.seeds = tuple(seeds)

    def calls(self, dtype: str) -> Calls:
        (call,) = self.of.calls(dtype)
        return tuple(replace(call, seed=seed) for seed in self.seeds)

    def expected(self, calls: Calls, conventions: Conventions) -> list[Possible]:
        (length, _), keep = calls[0].tensors["x"].shape, calls[0].options["keep"]
        assert isinstance(keep, float)
        found: list[Possible] = []
        for probability, factors in oracle.outcomes(length, keep):
            due = self.of.formula.due(calls[0], conventions, factors=factors)
            same = (known.number for known in found if not _apart(due, known.due))
            number = next(same, len({known.number for known in found}))
            found.append(Possible(probability, due, number, sum(factor > 0 for factor in factors)))
        return found

    def verdict(self, calls: Calls, replies: Replies, truth: Sequence[Possible]) -> Verdict:
        if complaint := _unfit(replies, truth):
            return complaint
        nearest = [_nearest(reply, truth) for reply in replies]
        largest = max(ratio for ratio, _ in nearest)
        for number, (reply, (_, possible)) in enumerate(zip(replies, nearest, strict=True), start=1):
            if off := compare.difference(_numbers(reply), possible.due.output.value, possible.due.output.bound):
                said = f"answer {number} is none of the {len(truth)} possible ones; beside the nearest, {off}"
                return Verdict(Status.FAILED, said, largest, output_wrong=True)
        if odd := shares.complaint(self.counted([possible.number for _, possible in nearest], truth)):
            return Verdict(Status.FAILED, odd, output_wrong=True)
        return Verdict(Status.PASSED, "", largest)

    def counted(self, came: Sequence[int], truth: Sequence[Possible]) -> list[Share]:
        """How often one seed gave two answers, how often each came of a draw of its own, and how many steps were kept."""
        earliest: dict[int, int] = {}
        for seed, number in zip(self.seeds, came, strict=True):
            if seed is not None:
                earliest.setdefault(seed, number)
        pairs = list(zip(self.seeds, came, strict=True))
        differ = [number != earliest[seed] for seed, number in pairs if seed is not None]
        draws = [*earliest.values(), *(number for seed, number in pairs if seed is None)]
        repeated = exactly("answers differ from the first of their seed", sum(differ), len(differ), 0.0)
        return [repeated, *_each(draws, truth), *_kept(draws, truth)]

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, truth: Sequence[Possible]) -> bool:
        """Whether every answer is among theirs, and each possible one comes as often."""
        if _unfit((*replies, *theirs), truth):
            return False
        if not all(any(truth[0].due.equal(our, their) for their in _distinct(theirs)) for our in _distinct(replies)):
            return False
        came, come = ([_nearest(reply, truth)[1].number for reply in each] for each in (replies, theirs))
        return shares.alike(self.counted(came, truth), self.counted(come, truth))


class Expected(Randomised):
    """A randomised gradient whose mean a document gives: the mean of all possible answers, by their probabilities."""

    def __init__(self, of: FormulaCase, figures: Figures, seeds: Seeds) -> None:
        super().__init__(of, seeds)
        self.figures, self.source, self.dtypes = figures, figures.source, PRECISE

    def verdict(self, calls: Calls, replies: Replies, truth: Sequence[Possible]) -> Verdict:
        mean = self.mean(truth)
        given = np.full(mean.shape, self.figures.values)
        if complaint := compare.difference(mean, given, np.array(DERIVED), name="the mean"):
            return Verdict(Status.FAILED, f"the document has another number: {complaint}")
        return super().verdict(calls, replies, truth)

    def mean(self, truth: Sequence[Possible]) -> Array:
        """The mean of all answers."""
        return np.array(sum(possible.probability * possible.due.numbers for possible in truth))

    def example(self) -> Example:
        given, mean = (
            first_numbers(numbers([self.figures.values]), 6),
            first_numbers(self.mean(self.expected(self.calls("float64"), {})), 6),
        )
        return example(self.name, self.figures.source, "", mean, f"not printed; derived from the definition: {given}")


def _each(draws: Sequence[int], truth: Sequence[Possible]) -> list[Share]:
    """How often each possible answer came."""
    found = []
    for kind in sorted({possible.number for possible in truth}):
        share = min(1.0, sum(possible.probability for possible in truth if possible.number == kind))
        says = f"answers are number {kind} of those possible"
        found.append(exactly(says, list(draws).count(kind), len(draws), share))
    return found


def _kept(draws: Sequence[int], truth: Sequence[Possible]) -> list[Share]:
    """Through how many steps all draws flowed back, where the bounds tell all answers apart."""
    kept = {possible.number: possible.kept for possible in truth}
    if len(kept) < len(truth):
        return []
    steps = max(kept.values())
    mean = sum(possible.probability * possible.kept for possible in truth) / max(1, steps)
    through = sum(kept[number] for number in draws)
    return [exactly("steps are flowed back through", through, steps * len(draws), mean)]


def _unfit(replies: Sequence[Reply], truth: Sequence[Possible]) -> Verdict | None:
    return next(filter(None, (truth[0].due.form.unfit(reply) for reply in replies)), None)


def _nearest(reply: Reply, truth: Sequence[Possible]) -> tuple[float, Possible]:
    """The possible answer that this one is nearest to, and how many bounds off."""
    ratios = [_ratio(_numbers(reply), possible.due) for possible in truth]
    best = int(np.argmin(ratios))
    return ratios[best], truth[best]


def _apart(one: WithinBounds, other: WithinBounds) -> bool:
    """Whether nothing within the bounds of one is within those of the other."""
    return min(_ratio(one.output.value, other), _ratio(other.output.value, one)) > APART


def _distinct(replies: Sequence[Reply]) -> list[Reply]:
    """One reply for each answer: of hundreds of draws there are few."""
    return list({_numbers(reply).tobytes(): reply for reply in replies}.values())


def _numbers(reply: Reply) -> Array:
    assert reply.output is not None
    return compare.numbers(reply.output)


def _ratio(values: Array, due: WithinBounds) -> float:
    return compare.error_ratio(values, due.output.value, due.output.bound)
