"""Cases whose answers are drawn: judged exactly where the draw can be read back, by counts where it cannot."""

from __future__ import annotations

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
"""What is counted in the outputs of some calls."""

SEED = 11
"""The seed of cases that ask one call alone."""


class CountedCase(CaseWrapper):
    """Another case's call, once for each seed, whose answers are judged by what is counted in them."""

    def __init__(self, of: Case, form: Callable[[Call], Form], count: Count, seeds: Seeds = (SEED,)) -> None:
        """`form` is what each reply has to be; the seed None goes on where the call before left the random source."""
        super().__init__(of)
        self.form, self.count, self.seeds = form, count, tuple(seeds)

    def calls(self, dtype: str) -> Calls:
        (call,) = self.of.calls(dtype)
        return tuple(replace(call, seed=seed) for seed in self.seeds)

    def expected(self, calls: Calls, conventions: Conventions) -> None:
        return None  # what is counted depends on the answer

    def verdict(self, calls: Calls, replies: Replies, truth: None) -> Verdict:
        if complaint := self._unfit(calls, replies):
            return complaint
        said = shares.complaint(self.counted(calls, replies))
        return Verdict(Status.WRONG, said, output_wrong=True) if said else Verdict(Status.PASSED)

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, truth: None) -> bool:
        """By what is counted: two draws of one mistake have no more in common."""
        if self._unfit(calls, replies) or self._unfit(calls, theirs):
            return False
        return shares.alike(self.counted(calls, replies), self.counted(calls, theirs))

    def counted(self, calls: Calls, replies: Replies) -> Sequence[Statistic]:
        """What is counted in these answers."""
        return self.count(calls, [compare.numbers(reply.output) for reply in replies if reply.output is not None])

    def _unfit(self, calls: Calls, replies: Replies) -> Verdict | None:
        forms = (self.form(call).unfit(reply) for call, reply in zip(calls, replies, strict=True))
        return next(filter(None, forms), None)


class DropoutReader(ABC):
    """How the weights that dropout kept are read off an output over identity values, which is the weights themselves.

    A contract says how: what form the output has, which weights were kept and which could be, and what is due then.
    """

    @abstractmethod
    def form(self, call: Call) -> Form: ...

    @abstractmethod
    def kept(self, call: Call, output: Array) -> Array:
        """Where a weight was kept, b h l s."""

    def possible(self, call: Call, kept: Array) -> Array:
        """Where a weight could be kept."""
        return kept | True

    def certain(self, call: Call, kept: Array, conventions: Conventions) -> Array:
        """Where a weight that is kept shows, however small it is and however the function rounds."""
        return self.possible(call, kept)

    def seen(self, call: Call, output: Array) -> Array:
        """Where a weight was kept; places where none could be are masked out."""
        kept = self.kept(call, output)
        possible = self.possible(call, kept)
        return kept if possible.all() else np.ma.masked_where(~possible, kept)

    @abstractmethod
    def due(self, call: Call, kept: Array, conventions: Conventions) -> Expected:
        """What is due of a call whose draw is known."""

    def count(self, judge: Judge, p: float, seeds: Seeds) -> Count:
        """Counts in the patterns of kept weights."""
        return lambda calls, outputs: judge(
            [self.seen(call, output) for call, output in zip(calls, outputs, strict=True)], seeds, p
        )


class DropoutCase(CaseWrapper):
    """A case whose outputs show which weights were kept: every output and gradient is held against that draw.

    Calls with one seed must drop the same ones, and gradients must use the mask of their forward pass. Where few
    weights can be kept, all of them may be, or none: what is asked is their share.
    """

    def __init__(self, of: Case, dropped: DropoutReader) -> None:
        super().__init__(of)
        self.dropped = dropped

    def expected(self, calls: Calls, conventions: Conventions) -> Conventions:
        return conventions  # the rest depends on which weights were kept

    def verdict(self, calls: Calls, replies: Replies, truth: Conventions) -> Verdict:
        draws: dict[int | None, Array] = {}
        tells = True  # whether another draw tells anything of these answers: else they are compared with nobody's
        for call, reply in zip(calls, replies, strict=True):
            if call.seed in draws:
                continue
            if complaint := self.dropped.form(call).unfit(reply):
                return complaint
            assert reply.output is not None
            kept = draws[call.seed] = self.dropped.kept(call, compare.numbers(reply.output))
            tells &= kept.shape == reply.output.shape or self._is_whole(call, kept, truth)
            if said := self._share(call, kept, truth):
                return Verdict(Status.WRONG, said, output_wrong=tells)
        found = judge([self.dropped.due(call, draws[call.seed], truth) for call in calls], replies)
        return replace(found, output_wrong=found.output_wrong and tells)

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, truth: Conventions) -> bool:
        """All of it where both kept the same; of two draws the weights that both kept, where they are wrong."""
        return all(self._alike(*each, truth) for each in zip(calls, replies, theirs, strict=True))

    def draws(self, calls: Calls, replies: Replies, truth: Conventions) -> Mapping[int, Tensor]:
        """What was kept under each seed; nothing where some answer drops nothing, so that its draw does not show."""
        found: dict[int, Tensor] = {}
        for call, reply in zip(calls, replies, strict=True):
            if call.seed is None or call.seed in found or self.dropped.form(call).unfit(reply):
                continue
            kept = self.dropped.kept(call, compare.numbers(_output(reply)))
            if kept.shape != _output(reply).shape or self._is_whole(call, kept, truth):
                return {}
            found[call.seed] = torch.from_numpy(kept)
        return found

    def _alike(self, call: Call, ours: Reply, theirs: Reply, conventions: Conventions) -> bool:
        if any(self.dropped.form(call).unfit(reply) for reply in (ours, theirs)):
            return False
        kept, others = (self.dropped.kept(call, compare.numbers(_output(reply))) for reply in (ours, theirs))
        whole = self._is_whole(call, kept, conventions)
        if whole != self._is_whole(call, others, conventions):
            return False
        if whole or np.array_equal(kept, others):
            return self.dropped.due(call, kept, conventions).alike(ours, theirs)
        both = kept & others
        if both.shape != _output(ours).shape:
            return False  # an output that is no weights itself hangs on all that were kept
        due = self.dropped.due(replace(call, gradient_of=()), both, conventions)  # so do gradients
        ours, theirs = (_only(both, reply) for reply in (ours, theirs))
        return due.verdict(ours).status != Status.PASSED and due.alike(ours, theirs)

    def _is_whole(self, call: Call, kept: Array, conventions: Conventions) -> bool:
        """Whether no weight was dropped that would show."""
        return bool(kept[self.dropped.certain(call, kept, conventions)].all())

    def _share(self, call: Call, kept: Array, conventions: Conventions) -> str:
        """What is wrong with how many of the weights that could be kept were, or empty."""
        possible, p = kept[self.dropped.certain(call, kept, conventions)], float(call.options["dropout_p"] or 0)
        said = shares.complaint([shares.exactly("weights are kept", int(possible.sum()), possible.size, 1 - p)])
        if not said:
            return ""
        drops = "nothing: " if possible.all() else "" if possible.any() else "everything: "
        return f"dropout_p={p} dropped {drops}{said}" if drops else said


def _only(kept: Array, reply: Reply) -> Reply:
    """The reply with 0 for all other weights."""
    return replace(reply, output=_output(reply).masked_fill(~torch.from_numpy(kept), 0.0))


def _output(reply: Reply) -> Tensor:
    assert reply.output is not None, "the form has been looked at"
    return reply.output
