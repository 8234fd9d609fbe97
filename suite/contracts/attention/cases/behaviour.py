"""How a function behaves over several calls: again, in another thread, without gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from suite import asking
from suite.asking import Call, Conventions, Reply
from suite.asking.layouts import INPUTS, as_one_tensor
from suite.contracts.attention.cases.case import Case, Judged, hold, judged, same_answer
from suite.judging.verdicts import Verdict
from suite.records import DTYPES, Status

Sequence = Callable[[Callable[[Case], Call]], tuple[Call, ...]]


@dataclass(frozen=True)
class Calls(asking.Case):
    """Several calls in a row, each held against the oracle. Calls that are alike need not answer the same bits.

    `sequence` makes the calls, given a function that draws the call of a case in the dtype under test.
    """

    name: str
    why: str
    sequence: Sequence
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> tuple[Call, ...]:
        return self.sequence(lambda case: case.but(name=case.name or self.name).call(dtype))

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> list[Judged]:
        return [judged(call, conventions) for call in calls]

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: list[Judged]) -> Verdict:
        largest = 0.0
        for number, (call, reply, due) in enumerate(zip(calls, replies, truth, strict=True), start=1):
            verdict = hold(call, reply, due)
            if verdict.status != "passed":
                return replace(verdict, detail=f"call {number} of {len(calls)}: {verdict.detail}")
            largest = max(largest, verdict.error_ratio or 0.0)
        return Verdict(Status.PASSED, "", largest)

    def alike(
        self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: list[Judged]
    ) -> bool:
        return all(map(same_answer, calls, replies, theirs, truth))


SMALL = Case("behaviour/small", "", queries=6, keys=9)
"""What most calls in a row are."""


def behaviour() -> list[asking.Case]:
    """Functions have no memory, no favourite thread and no side effects."""
    other = Case("behaviour/other", "", queries=3, keys=12, width=16)
    tiled = Case("behaviour/tiled", "", queries=130, keys=200)
    learning = SMALL.but(gradient_of=INPUTS)
    return [
        Calls("behaviour/repeated", "the same call again gives the same answer", repeat(SMALL, 3)),
        Calls("behaviour/repeated_tiled", "the same call again, where there are several tiles", repeat(tiled, 3)),
        Calls("behaviour/repeated_gradient", "a second backward pass", repeat(learning, 2)),
        Calls("behaviour/alternating_shapes", "shapes A, B, A: nothing stale is used", each(SMALL, other, SMALL)),
        Calls("behaviour/alternating_keys", "only the number of keys alternates", each(SMALL, SMALL.but(keys=4), SMALL)),
        Calls("behaviour/other_numbers", "the same shape with other numbers", each(SMALL, SMALL.but(name="behaviour/small_too"))),
        Calls("behaviour/same_pointers", "other numbers behind the same pointers", same_storage(SMALL)),
        Calls("behaviour/one_tensor", "one tensor is given as query, key and value", one_tensor(SMALL)),
        Calls("behaviour/second_thread", "another thread", threads(SMALL)),
        Calls("behaviour/second_thread_gradient", "gradients in another thread", threads(learning)),
        Calls("behaviour/without_gradients", "no_grad agrees with grad mode", modes(SMALL)),
        Calls("behaviour/gradients_then_none", "a call that learns changes nothing for one that does not", each(SMALL, learning, SMALL)),
        Case("behaviour/one_key_one_query", "the output of one key is a copy of its value, not the value", queries=1, keys=1),
        Case("behaviour/options_spelled_out", "every option at its default, as callers pass them on", spelled_out=True),
        Case("behaviour/one_key", "a single value handed to every query", keys=1),
    ]  # fmt: skip


def repeat(case: Case, times: int) -> Sequence:
    return lambda draw: (draw(case),) * times


def each(*cases: Case) -> Sequence:
    return lambda draw: tuple(draw(case) for case in cases)


def same_storage(case: Case) -> Sequence:
    changed = case.but(name=case.name + "_changed")
    return lambda draw: (draw(case), replace(draw(changed), same_storage=True))


def one_tensor(case: Case) -> Sequence:
    return lambda draw: (as_one_tensor(draw(case.but(name="", keys=case.queries))),)


def threads(case: Case) -> Sequence:
    return lambda draw: (draw(case), replace(draw(case), own_thread=True))


def modes(case: Case) -> Sequence:
    learning = case.but(gradient_of=INPUTS)
    return lambda draw: (draw(learning), replace(draw(case), grad_mode=False))
