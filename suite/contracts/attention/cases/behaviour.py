"""How a function behaves over several calls: again, in another thread, without gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from attnsuite.cases import Call, Calls, Case, Conventions, Replies
from attnsuite.cases.case import HOW, ChangedCase, Traits
from attnsuite.cases.expected import PerCallCase, WithinBounds
from attnsuite.cases.layouts import INPUTS, as_one_tensor
from attnsuite.contracts.attention.cases.case import AttentionCase, due
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import DTYPES, Status

Making = Callable[[Callable[[AttentionCase], Call]], Calls]
"""Makes the calls of a case, given a function that draws the call of an `AttentionCase` in the dtype under test."""


@dataclass(frozen=True)
class InARow(PerCallCase):
    """Several calls in a row, each held against the oracle."""

    name: str
    why: str
    making: Making
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> Calls:
        return self.making(lambda case: case.but(name=case.name or self.name).call(dtype))

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[WithinBounds, ...]:
        return tuple(due(call, conventions) for call in calls)

    def traits(self, dtype: str) -> Traits:
        """Those of all its calls, found without drawing their numbers."""
        made: list[AttentionCase] = []

        def noted(case: AttentionCase) -> Call:
            made.append(case)
            return Call({name: torch.empty(0) for name in INPUTS})

        calls = self.making(noted)
        of_calls = {
            "calls": ("several calls",) if len(calls) > 1 else (),
            "thread": ("another thread",) if any(call.own_thread for call in calls) else (),
            "one tensor": ("one tensor in several roles",) if any(call.same_tensor for call in calls) else (),
            HOW: () if all(call.grad_mode for call in calls) else ("without grad mode",),
        }
        merged: dict[str, tuple[str, ...]] = {}
        for traits in (*(case.traits(dtype) for case in made), of_calls):
            for topic, phrases in traits.items():
                merged[topic] = tuple(dict.fromkeys((*merged.get(topic, ()), *phrases)))
        return merged


class Repeated(ChangedCase):
    """The same call several times, whose bits have to be equal where that is declared."""

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Any, bool]:
        return self.of.expected(calls, conventions), conventions.get("repeated_calls") == "equal_bits"

    def verdict(self, calls: Calls, replies: Replies, truth: tuple[Any, bool]) -> Verdict:
        due, promised = truth
        found = self.of.verdict(calls, replies, due)
        said = differing(replies) if promised and found.status == Status.PASSED else ""
        return Verdict(Status.FAILED, f"{said}; repeated_calls is declared to be equal_bits") if said else found

    def counts(self, truth: tuple[Any, bool]) -> bool:
        return self.of.counts(truth[0])

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, truth: tuple[Any, bool]) -> bool:
        return self.of.alike(calls, replies, theirs, truth[0])


def differing(replies: Replies) -> str:
    """Which output or gradient of the same call has not the bits that the first one had, or empty."""
    first = replies[0]
    for number, reply in enumerate(replies[1:], start=2):
        pairs = {"output": (reply.output, first.output)} | {
            f"gradient of {name}": (reply.gradients[name], gradient) for name, gradient in first.gradients.items()
        }
        for name, (now, before) in pairs.items():
            if now is not None and before is not None and (count := int((now != before).sum())):
                return f"call {number} of {len(replies)}: {count} of {now.numel()} numbers of the {name} differ from call 1's"
    return ""


SMALL = AttentionCase("behaviour/small", "", queries=6, keys=9)
"""What most calls in a row are."""


def behaviour() -> list[Case]:
    """Functions have no memory, no favourite thread and no side effects."""
    other = AttentionCase("behaviour/other", "", queries=3, keys=12, width=16)
    tiled = AttentionCase("behaviour/tiled", "", queries=130, keys=200)
    learning = SMALL.but(gradient_of=INPUTS)
    return [
        Repeated(InARow("behaviour/repeated", "the same call again gives the same answer", repeat(SMALL, 3))),
        Repeated(InARow("behaviour/repeated_tiled", "the same call again, where there are several tiles", repeat(tiled, 3))),
        Repeated(InARow("behaviour/repeated_gradient", "a second backward pass", repeat(learning, 2))),
        InARow("behaviour/alternating_shapes", "shapes A, B, A: nothing stale is used", each(SMALL, other, SMALL)),
        InARow("behaviour/alternating_keys", "only the number of keys alternates", each(SMALL, SMALL.but(keys=4), SMALL)),
        InARow("behaviour/other_numbers", "the same shape with other numbers", each(SMALL, SMALL.but(name="behaviour/small_too"))),
        InARow("behaviour/same_pointers", "other numbers behind the same pointers", same_storage(SMALL)),
        InARow("behaviour/one_tensor", "one tensor is given as query, key and value", one_tensor(SMALL)),
        InARow("behaviour/second_thread", "another thread", threads(SMALL)),
        InARow("behaviour/second_thread_gradient", "gradients in another thread", threads(learning)),
        InARow("behaviour/without_gradients", "no_grad agrees with grad mode", modes(SMALL)),
        InARow("behaviour/gradients_then_none", "a call that learns changes nothing for one that does not", each(SMALL, learning, SMALL)),
        AttentionCase("behaviour/one_key_one_query", "the output of one key is a copy of its value, not the value", queries=1, keys=1),
        AttentionCase("behaviour/options_spelled_out", "every option at its default, as callers pass them on", spelled_out=True),
        AttentionCase("behaviour/one_key", "a single value handed to every query", keys=1),
    ]  # fmt: skip


def repeat(case: AttentionCase, times: int) -> Making:
    return lambda draw: (draw(case),) * times


def each(*cases: AttentionCase) -> Making:
    return lambda draw: tuple(draw(case) for case in cases)


def same_storage(case: AttentionCase) -> Making:
    changed = case.but(name=case.name + "_changed")
    return lambda draw: (draw(case), replace(draw(changed), same_storage=True))


def one_tensor(case: AttentionCase) -> Making:
    return lambda draw: (as_one_tensor(draw(case.but(name="", keys=case.queries))),)


def threads(case: AttentionCase) -> Making:
    return lambda draw: (draw(case), replace(draw(case), own_thread=True))


def modes(case: AttentionCase) -> Making:
    learning = case.but(gradient_of=INPUTS)
    return lambda draw: (draw(learning), replace(draw(case), grad_mode=False))
