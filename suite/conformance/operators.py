"""Which operators an implementation runs: some questions that it answers are asked once more, and looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from attnsuite.conformance.questions import Question
from attnsuite.conformance.runner import Check
from attnsuite.model import Operators, Outcome, Status

MOST_LOOKED_AT = 40
"""Questions that are looked at: one of each family, a few milliseconds each."""


EXPONENTIALS = ("exp", "softmax", "attention", "sigmoid", "tanh", "pow")
"""Parts of the names of PyTorch operators with which a softmax can be computed."""


def hint(check: Check, outcomes: Sequence[Outcome], ran: Operators | None) -> str:
    """A question for the author of wrong softmax attention that runs no exponential; else empty.

    Code that is not PyTorch's may compute one, so it is asked only where all operators are PyTorch's.
    """
    contract = check.subject.contract
    wrong = any(o.status == Status.WRONG and o.case.startswith(f"{contract.core}/") for o in outcomes)
    if not wrong or ran is None or not ran.ran or "softmax" not in contract.page:
        return ""
    if any(not name.startswith("aten::") or any(each in name for each in EXPONENTIALS) for name in ran.ran):
        return ""
    return "no exponential ran: is this softmax attention at all?"


def operators(check: Check, outcomes: Sequence[Outcome]) -> Operators | None:
    """What ran in the first question of each family that has an answer; None where nothing answered."""
    ran: Counter[str] = Counter()
    looked_at = 0
    for question in _plain(check, outcomes):
        calls = [check.subject.contract.adapt(call, check.subject.understood) for call in question.calls]
        replies = check.subject.ask([replace(call, operators=True) for call in calls])
        if not isinstance(replies, tuple):
            break  # its process has ended: others might end as well, after a minute each
        looked_at += 1
        ran.update({name for reply in replies for name in reply.operators})
    return Operators(looked_at, dict(ran)) if looked_at else None


def _plain(check: Check, outcomes: Sequence[Outcome]) -> Iterator[Question]:
    """A question of each family that was answered right away, in the first dtype."""
    answered = {(each.case, each.dtype) for each in outcomes if each.status in (Status.PASSED, Status.WRONG)}
    families: set[str] = set()
    for case, dtype in check.asked:
        if case.family in families or case.in_worker or (case.name, dtype) not in answered:
            continue
        if len(families) == MOST_LOOKED_AT:
            return
        families.add(case.family)
        yield check.question(case, dtype)
