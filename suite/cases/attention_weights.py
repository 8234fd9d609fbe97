"""Attention weights that come beside an output: what is due of them, and how they are held against that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnsuite.cases.call import Calls, Replies, Reply
from attnsuite.cases.documented import DocumentedShape, example
from attnsuite.cases.expected import Expected, NearInNorm, PerCallCase, WithinBounds
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Bounded, Precision
from attnsuite.judging.rounded import LIBRARY
from attnsuite.judging.verdicts import Verdict, closest
from attnsuite.model import Example, Source, Status

Array = np.ndarray[Any, Any]
Arrange = Callable[[Array, Mapping[str, Array]], Array]
"""What a document gives the shape of, made of an output and of the weights beside it by name."""


@dataclass(frozen=True)
class AttentionWeights:
    """The weights of one attention, … l s: how each query shares out its attention."""

    due: WithinBounds | NearInNorm
    """Their form and numbers."""
    hidden: Array
    """True where a query may not attend to a key, which has a weight of exactly 0 there; … l s."""

    def verdict(self, name: str, reply: Reply) -> Verdict:
        """The judgement on weights of this name; the empty one is no name."""
        called, tensor = f"attention weights {name}".strip(), reply.attention_weights.get(name)
        if tensor is None:
            return Verdict(Status.WRONG, f"the {called} are no tensor")
        if unfit := self.due.form.unfit(replace(reply, output=tensor, aliased=(), overwritten=False), called):
            return unfit
        if name in reply.weights_overwritten:
            return Verdict(Status.WRONG, f"a later call changed the {called}")
        actual = compare.numbers(tensor)
        return self._hidden(called, actual) or self._held(called, actual)

    def equal(self, name: str, reply: Reply, theirs: Reply) -> bool:
        """Whether two replies whose form is right have equal weights, but for what rounding may have cost both."""
        ours, others = (each.attention_weights.get(name) for each in (reply, theirs))
        if ours is None or others is None or ours.shape != others.shape:
            return ours is None and others is None
        seen = [
            self.hidden & (compare.numbers(each) != 0) for each in (ours, others) if each.shape == self.hidden.shape
        ]
        if seen and not np.array_equal(*seen):
            return False
        if ours.shape != self.hidden.shape:  # of another form than is due: there are no bounds for these numbers
            return np.array_equal(compare.numbers(ours), compare.numbers(others), equal_nan=True)
        return self.due.alike(Reply(output=ours), Reply(output=others))

    def negated(self) -> AttentionWeights:
        """What is due of an attention that answers the negative."""
        if isinstance(self.due, WithinBounds):
            output = Bounded(-self.due.output.value, self.due.output.bound)
            return replace(self, due=replace(self.due, output=output))
        return replace(self, due=replace(self.due, value=-self.due.value))

    def _hidden(self, called: str, actual: Array) -> Verdict | None:
        """What is wrong with the weights of keys that a query may not attend to."""
        seen = np.argwhere(self.hidden & (actual != 0))
        if not len(seen):
            return None
        place, count = tuple(map(int, seen[0])), len(seen)
        says = f"{called}{list(place)} is {actual[place]:.7g}, of a key that its query may not attend to"
        return Verdict(Status.WRONG, f"{says}: due is 0 ({count} such weights)", math.inf, output_wrong=True)

    def _held(self, called: str, actual: Array) -> Verdict:
        """Each row's sum, and then the numbers."""
        sums = self.due.numbers.sum(-1).round()  # 1, or 0 of a query that may attend to nothing
        room = np.full(sums.shape, row_sum_bound(actual.shape[-1], PRECISIONS[str(self.due.form.dtype)[6:]]))
        if isinstance(self.due, NearInNorm):
            room[np.isinf(self.due.allowed)] = np.inf  # rows of which nothing is known
        found = closest([(f"the sum of {called}", actual.sum(-1), Bounded(sums, room), 1.0)])
        if found.status != Status.PASSED:
            return found
        if isinstance(self.due, WithinBounds):
            return closest([(called, actual, self.due.output, 1.0)])
        value, allowed = self.due.value, self.due.allowed
        ratios = compare.distances(actual, value, allowed)
        ratio, says = float(ratios.max(initial=0.0)), compare.distance(actual, value, allowed, name=called)
        if says:
            return Verdict(Status.WRONG, says, ratio, output_wrong=True, marginal=compare.marginal(ratios))
        return Verdict(Status.PASSED, "", ratio)


@dataclass(frozen=True)
class WithWeights(Expected):
    """An output with the weights of every attention beside it, by name; one attention that has none is called ""."""

    of: Expected
    """What is due of the output."""
    attentions: Mapping[str, AttentionWeights]

    @property
    def form(self) -> Any:  # type: ignore[override]
        return self.of.form

    @property
    def loose(self) -> bool:  # type: ignore[override]
        return self.of.loose

    @property
    def decided(self) -> Array | None:  # type: ignore[override]
        return self.of.decided

    @property
    def numbers(self) -> Array:
        return self.of.numbers

    @property
    def room(self) -> Array:
        return self.of.room

    def held(self, reply: Reply) -> Verdict:
        """The names first, then the output, then the weights."""
        if said := self._names(reply):
            return Verdict(Status.WRONG, said)
        found = self.of.held(reply)
        for name, shares in self.attentions.items():
            if found.status != Status.PASSED:
                break
            found = worse(found, shares.verdict(name, reply))
        return found

    def equal(self, reply: Reply, theirs: Reply) -> bool:
        if reply.attention_weights.keys() != theirs.attention_weights.keys() or not self.of.equal(reply, theirs):
            return False
        return all(shares.equal(name, reply, theirs) for name, shares in self.attentions.items())

    def negated(self) -> WithWeights:
        """The same of an attention that answers the negative; the output is what is due then already."""
        return replace(self, attentions={name: shares.negated() for name, shares in self.attentions.items()})

    def _names(self, reply: Reply) -> str:
        """What is wrong with the names of the weights, or empty."""
        came, due = list(reply.attention_weights), list(self.attentions)
        if set(came) == set(due):
            return ""
        if not came:
            return "returned an output alone, should return the output and its attention weights"
        if due == [""]:
            return f"the attention weights are a dictionary of {_listed(came)}, should be a tensor"
        if came == [""]:
            return f"the attention weights are no dictionary, should be one of {_listed(due)}"
        lacking, foreign = ([name for name in one if name not in other] for one, other in ((due, came), (came, due)))
        said = f"lack {_listed(lacking)}" if lacking else f"have {_listed(foreign)}, which is not due"
        return f"the attention weights {said}"


class DocumentedArrangement(DocumentedShape):
    """A case of one call, of whose output and attention weights a document gives a shape once they are arranged so."""

    def __init__(self, of: PerCallCase, source: Source, shape: Sequence[int], arrange: Arrange) -> None:
        super().__init__(of, source, shape)
        self.arrange = arrange

    def verdict(self, calls: Calls, replies: Replies, truth: Sequence[Expected]) -> Verdict:
        found, reply = self.of.verdict(calls, replies, truth), replies[0]
        if found.status != Status.PASSED or reply.output is None:
            return found
        weights = {name: compare.numbers(each) for name, each in reply.attention_weights.items() if each is not None}
        came = self.arrange(compare.numbers(reply.output), weights).shape
        if came != self.shape:
            return Verdict(Status.WRONG, f"what came has shape {came}, the document prints {self.shape}")
        return found

    def example(self) -> Example:
        (due,) = self.expected(self.calls("float64"), {})
        weights = (
            {name: shares.due.numbers for name, shares in due.attentions.items()}
            if isinstance(due, WithWeights)
            else {}
        )
        assert self.source is not None
        computed = self.arrange(due.numbers, weights).shape
        return example(self.name, self.source, str(self.shape), str(computed), "unseeded draws")


def row_sum_bound(keys: int, precision: Precision) -> float:
    """How far the sum of a row of weights may lie from 1, whatever the scores: what a softmax may round.

    Each power is off by 2u for its own distance from the largest score, and the sum by the mean of that. Weighted, the
    distances of n keys come to ln n at most, for that and the logarithm of the sum are the entropy; so both take
    4u(1 + ln n) together. The exponential and the quotient take LIBRARY units twice, the sum its n terms, and writing
    each weight down a unit, or an underflow. u is the dtype's unit roundoff: each step may be rounded to it.
    """
    spread = 4 * (1 + math.log(max(keys, 1)))
    return (spread + 2 * LIBRARY + 1) * precision.unit + keys * (precision.accumulator + precision.tiny)


def worse(one: Verdict, other: Verdict) -> Verdict:
    """Of a judgement that is passed and a second one, the second, with the larger error."""
    return replace(other, error_ratio=max(one.error_ratio or 0.0, other.error_ratio or 0.0))


def _listed(names: list[str]) -> str:
    """The first names of several."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
