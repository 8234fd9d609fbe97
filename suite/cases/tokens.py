"""Tokens that a model chooses one after the other, and the attention weights of its steps: what is due of them, as far
as no rounding may choose otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from attnsuite.cases.call import Reply
from attnsuite.cases.due import Due, Form, Near
from attnsuite.cases.seen import Seen, Shares
from attnsuite.judging import compare
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Status

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tokens(Due):
    """Translations of several items, b t."""

    form: Form
    value: Array
    known: Array
    """False from the first step on in which two logits lie nearer to each other than both may be off."""

    @property
    def numbers(self) -> Array:
        return self.value.astype(np.float64)

    @property
    def room(self) -> Array:
        return np.where(self.known, 0.0, np.inf)

    def held(self, reply: Reply) -> Verdict:
        assert reply.output is not None
        wrong = np.argwhere(self.known & (compare.numbers(reply.output) != self.value))
        if not len(wrong):
            return Verdict(Status.PASSED, "", 0.0)
        item, step = map(int, wrong[0])
        came, due = int(reply.output[item, step]), int(self.value[item, step])
        says = f"token {step + 1} of item {item} is {came}, due is {due} ({len(wrong)} of {self.known.sum()} tokens)"
        return Verdict(Status.WRONG, says, np.inf, output_wrong=True)

    def equal(self, reply: Reply, theirs: Reply) -> bool:
        assert reply.output is not None
        assert theirs.output is not None
        return torch.equal(reply.output, theirs.output)


def chosen(logits: Near, proposed: Array, greedy: Mapping[str, int]) -> Tokens:
    """What greedy decoding comes to, from the logits, b t v, that are due where these tokens, b t, were read before.

    Each token that is read is the largest logit's of the step before, so that a step is known where that is certain of
    all steps before it: the two largest logits differ by more than both may be off.
    """
    end, best = greedy["end"], logits.value.argmax(-1)
    largest = np.sort(logits.numbers, -1)
    clear = largest[..., -1] - largest[..., -2] > 2 * logits.allowed
    ended = np.cumsum(best == end, -1) > 0
    sure = np.logical_and.accumulate((clear & (best == proposed)) | _before(ended, first=False), -1)
    return Tokens(Form(best.shape, torch.int64), np.where(ended, end, best), sure)


def chosen_and_seen(taught: Seen, proposed: Array, greedy: Mapping[str, int], of_steps: Callable[[str], bool]) -> Seen:
    """The same, with what is due of the weights beside it.

    Of attentions whose rows are steps, those up to a translation's end count, if they read known tokens.
    """
    assert isinstance(taught.of, Near)
    tokens = chosen(taught.of, proposed, greedy)
    over = _before(np.cumsum(tokens.value == greedy["end"], -1) > 0, first=False)
    unknown = ~_before(tokens.known, first=True) & ~over
    attentions = {
        name: _of_steps(shares, over, unknown) if of_steps(name) else shares
        for name, shares in taught.attentions.items()
    }
    return Seen(tokens, attentions)


def _before(steps: Array, *, first: bool) -> Array:
    """What each step has of the one before it, b t."""
    return np.pad(steps[:, :-1], ((0, 0), (1, 0)), constant_values=first)


def _of_steps(shares: Shares, over: Array, unknown: Array) -> Shares:
    """What is due of weights, b … t s: zeros in steps that are over, and nothing in those that are unknown, b t."""
    assert isinstance(shares.due, Near)
    value, allowed = shares.due.value, shares.due.allowed
    over, unknown = (each.reshape(len(each), *[1] * (value.ndim - 3), -1) for each in (over, unknown))
    due = replace(shares.due, value=np.where(over[..., None], 0.0, value), allowed=np.where(unknown, np.inf, allowed))
    return Shares(due, shares.hidden | over[..., None])
