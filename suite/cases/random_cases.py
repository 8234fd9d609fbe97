"""Cases with random outputs: judged exactly where the draw can be read from the output, by counts where it cannot."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases.call import Call, Calls, Conventions, Replies, Reply
from attnsuite.cases.case import Case, CaseWrapper
from attnsuite.cases.expected import Expected, Form, judge
from attnsuite.cases.tensors import Array
from attnsuite.judging import compare, shares
from attnsuite.judging.patterns import Judge, Seeds
from attnsuite.judging.shares import Statistic
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Status

Count = Callable[[Calls, Sequence[Array]], Sequence[Statistic]]
"""Counts something in the outputs of some calls."""

SEED = 11
"""The seed of cases with one call."""


class CountedCase(CaseWrapper):
    """Another case's call, once for each seed; counts in the outputs are judged."""

    def __init__(self, base: Case, form: Callable[[Call], Form], count: Count, seeds: Seeds = (SEED,)) -> None:
        """`form` is the form of each reply; the seed None continues where the call before left the random source."""
        super().__init__(base)
        self.form, self.count, self.seeds = form, count, tuple(seeds)

    def calls(self, dtype: str) -> Calls:
        (call,) = self.base.calls(dtype)
        return tuple(replace(call, seed=seed) for seed in self.seeds)

    def expected(self, calls: Calls, conventions: Conventions) -> None:
        return None  # the counts depend on the outputs

    def verdict(self, calls: Calls, replies: Replies, expected: None) -> Verdict:
        if unfit := self._unfit(calls, replies):
            return unfit
        complaint = shares.complaint(self.counted(calls, replies))
        return Verdict(Status.FAILED, complaint, output_wrong=True) if complaint else Verdict(Status.PASSED)

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: None) -> bool:
        """Whether the counts are alike: two draws of one mistake have nothing else in common."""
        if self._unfit(calls, replies) or self._unfit(calls, theirs):
            return False
        return shares.alike(self.counted(calls, replies), self.counted(calls, theirs))

    def counted(self, calls: Calls, replies: Replies) -> Sequence[Statistic]:
        """Return the statistics of the outputs."""
        return self.count(calls, [compare.numbers(reply.output) for reply in replies if reply.output is not None])

    def _unfit(self, calls: Calls, replies: Replies) -> Verdict | None:
        forms = (self.form(call).unfit(reply) for call, reply in zip(calls, replies, strict=True))
        return next(filter(None, forms), None)


class DropoutReader(ABC):
    """Reads the weights that dropout kept off an output over identity values, which is the weights themselves."""

    @abstractmethod
    def form(self, call: Call) -> Form:
        """Return the form that outputs must have."""

    @abstractmethod
    def kept(self, call: Call, output: Array) -> Array:
        """Where a weight was kept, b h l s."""

    def possible(self, call: Call, kept: Array) -> Array:
        """Where a weight could be kept."""
        return kept | True

    def certain(self, call: Call, kept: Array, conventions: Conventions) -> Array:
        """Where a kept weight shows, however small it is and however the function rounds."""
        return self.possible(call, kept)

    def visible_kept(self, call: Call, output: Array) -> Array:
        """Where a weight was kept, with a mask over the places where none could be."""
        kept = self.kept(call, output)
        possible = self.possible(call, kept)
        return kept if possible.all() else np.ma.masked_where(~possible, kept)

    @abstractmethod
    def expected(self, call: Call, kept: Array, conventions: Conventions) -> Expected:
        """The expected result of a call that kept these weights."""

    def count(self, judge: Judge, p: float, seeds: Seeds) -> Count:
        """Counts in the patterns of kept weights."""
        return lambda calls, outputs: judge(
            [self.visible_kept(call, output) for call, output in zip(calls, outputs, strict=True)], seeds, p
        )


class DropoutCase(CaseWrapper):
    """A case whose outputs reveal the kept weights: outputs and gradients are judged for that draw.

    Calls with one seed must drop the same weights, and gradients must use the mask of their forward pass. Where few
    weights can be kept, all of them may be, or none: their share is judged.
    """

    def __init__(self, base: Case, dropped: DropoutReader) -> None:
        super().__init__(base)
        self.dropped = dropped

    def expected(self, calls: Calls, conventions: Conventions) -> Conventions:
        return conventions  # the rest depends on the kept weights

    def verdict(self, calls: Calls, replies: Replies, expected: Conventions) -> Verdict:
        draws: dict[int | None, Array] = {}
        comparable = True  # else another draw says nothing about these outputs, and no mutant is compared with them
        for call, reply in zip(calls, replies, strict=True):
            if call.seed in draws:
                continue
            if unfit := self.dropped.form(call).unfit(reply):
                return unfit
            kept = draws[call.seed] = self._kept(call, reply)
            comparable &= kept.shape == _output(reply).shape or self._is_whole(call, kept, expected)
            if complaint := self._share(call, kept, expected):
                return Verdict(Status.FAILED, complaint, output_wrong=comparable)
        verdict = judge([self.dropped.expected(call, draws[call.seed], expected) for call in calls], replies)
        return replace(verdict, output_wrong=verdict.output_wrong and comparable)

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: Conventions) -> bool:
        """Compares everything where both kept the same; else, if they are wrong, the weights that both kept."""
        return all(self._alike(*triple, expected) for triple in zip(calls, replies, theirs, strict=True))

    def draws(self, calls: Calls, replies: Replies, expected: Conventions) -> Mapping[int, Tensor]:
        """The kept weights by seed; empty where an output drops nothing, so that its draw does not show."""
        masks: dict[int, Tensor] = {}
        for call, reply in zip(calls, replies, strict=True):
            if call.seed is None or call.seed in masks or self.dropped.form(call).unfit(reply):
                continue
            kept = self._kept(call, reply)
            if kept.shape != _output(reply).shape or self._is_whole(call, kept, expected):
                return {}
            masks[call.seed] = torch.from_numpy(kept)
        return masks

    def _kept(self, call: Call, reply: Reply) -> Array:
        return self.dropped.kept(call, compare.numbers(_output(reply)))

    def _alike(self, call: Call, ours: Reply, theirs: Reply, conventions: Conventions) -> bool:
        if any(self.dropped.form(call).unfit(reply) for reply in (ours, theirs)):
            return False
        kept, others = self._kept(call, ours), self._kept(call, theirs)
        whole = self._is_whole(call, kept, conventions)
        if whole != self._is_whole(call, others, conventions):
            return False
        if whole or np.array_equal(kept, others):
            return self.dropped.expected(call, kept, conventions).alike(ours, theirs)
        both = kept & others
        if both.shape != _output(ours).shape:
            return False  # an output that is not the weights themselves depends on all kept weights
        expected = self.dropped.expected(replace(call, gradient_of=()), both, conventions)  # so do gradients
        ours, theirs = (_only(both, reply) for reply in (ours, theirs))
        return expected.verdict(ours).status != Status.PASSED and expected.alike(ours, theirs)

    def _is_whole(self, call: Call, kept: Array, conventions: Conventions) -> bool:
        """Whether no weight was dropped that would show."""
        return bool(kept[self.dropped.certain(call, kept, conventions)].all())

    def _share(self, call: Call, kept: Array, conventions: Conventions) -> str:
        """What is wrong with the share of kept weights, or empty."""
        certain, p = kept[self.dropped.certain(call, kept, conventions)], float(call.options["dropout_p"] or 0)
        complaint = shares.complaint([shares.exactly("weights are kept", int(certain.sum()), certain.size, 1 - p)])
        if not complaint:
            return ""
        drops = "nothing: " if certain.all() else "" if certain.any() else "everything: "
        return f"dropout_p={p} dropped {drops}{complaint}" if drops else complaint


def _only(kept: Array, reply: Reply) -> Reply:
    """The reply with 0 for all other weights."""
    return replace(reply, output=_output(reply).masked_fill(~torch.from_numpy(kept), 0.0))


def _output(reply: Reply) -> Tensor:
    assert reply.output is not None, "the form has been checked"
    return reply.output
