"""Cases of several calls, or of one in an unusual way: repeated, out of order, in threads, related to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call, Calls, Case, Conventions, Replies
from attnsuite.cases.case import HOW, ChangedCase, Traits
from attnsuite.cases.expected import PerCallCase, WithinBounds
from attnsuite.cases.layouts import INPUTS, LayoutCase, as_one_tensor
from attnsuite.cases.tensors import FAST, dtype_of
from attnsuite.contracts.attention.cases.case import AttentionCase, case, expected_result, gradients
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.judging.precision import PRECISIONS, Bounded
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Status

MakeCalls = Callable[[Callable[[AttentionCase], Call]], Calls]
"""Makes the calls of a case, given a function that draws the call of an `AttentionCase` in the dtype under test."""


@dataclass(frozen=True)
class CallSequence(PerCallCase):
    """Several calls in a row, each compared with the oracle."""

    name: str
    why: str
    making: MakeCalls
    dtypes: tuple[str, ...] = FAST

    def calls(self, dtype: str) -> Calls:
        return self.making(lambda case: case.but(name=case.name or self.name).call(dtype))

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[WithinBounds, ...]:
        return tuple(expected_result(call, conventions) for call in calls)

    def traits(self, dtype: str) -> Traits:
        """The traits of all its calls, determined without drawing their numbers."""
        made: list[AttentionCase] = []

        def noted(case: AttentionCase) -> Call:
            made.append(case)
            return Call({name: torch.empty(1, 1, 1, 1) for name in (*INPUTS, "attn_mask")})

        calls = self.making(noted)
        of_calls = {
            "calls": ("several calls",) if len(calls) > 1 else (),
            "thread": ("another thread",) if any(call.own_thread for call in calls) else (),
            "one tensor": ("one tensor in several roles",) if any(call.same_tensor for call in calls) else (),
            HOW: () if all(call.grad_mode for call in calls) else ("without grad mode",),
        }
        every = [*(part.traits(dtype) for part in made), of_calls]
        topics = dict.fromkeys(topic for traits in every for topic in traits)
        return {topic: tuple(dict.fromkeys(p for traits in every for p in traits.get(topic, ()))) for topic in topics}


class RepeatedCall(ChangedCase):
    """The same call several times; its bits must be equal where that is declared."""

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Any, bool]:
        return self.base.expected(calls, conventions), conventions.get("repeated_calls") == "equal_bits"

    def verdict(self, calls: Calls, replies: Replies, expected: tuple[Any, bool]) -> Verdict:
        due, promised = expected
        verdict = self.base.verdict(calls, replies, due)
        if not promised or verdict.status != Status.PASSED or not (name := _differing(replies)):
            return verdict
        says = f"the bits of the {name} differ from call to call; repeated_calls is declared to be equal_bits"
        return Verdict(Status.FAILED, says)

    def counts(self, expected: tuple[Any, bool]) -> bool:
        return self.base.counts(expected[0])

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: tuple[Any, bool]) -> bool:
        return self.base.alike(calls, replies, theirs, expected[0])


def _differing(replies: Replies) -> str:
    """The output or gradient that is not the same in all replies; or empty."""
    first, *others = ({"output": reply.output, **reply.gradients} for reply in replies)
    for name, tensor in first.items():
        for again in (other[name] for other in others):
            if tensor is not None and again is not None and not torch.equal(tensor, again):
                return name
    return ""


SMALL = case("behaviour/small", "", queries=6, keys=9)
"""The base of most cases."""
LEARNING = SMALL.but(gradient_of=INPUTS)


def behaviour() -> list[Case]:
    """Functions have no memory, no favourite thread and no side effects."""
    other = case("behaviour/other", "", queries=3, keys=12, width=16)
    tiled = case("behaviour/tiled", "", queries=130, keys=200)
    return [
        RepeatedCall(CallSequence("behaviour/repeated", "the same call again gives the same output", lambda draw: (draw(SMALL),) * 3)),
        RepeatedCall(CallSequence("behaviour/repeated_tiled", "the same call again, where there are several tiles",
            lambda draw: (draw(tiled),) * 3)),
        RepeatedCall(CallSequence("behaviour/repeated_gradient", "a second backward pass",
            lambda draw: (draw(LEARNING),) * 2)),
        CallSequence("behaviour/alternating_shapes", "shapes A, B, A: nothing stale is used",
            in_turn(SMALL, other, SMALL)),
        CallSequence("behaviour/alternating_keys", "only the number of keys alternates",
            in_turn(SMALL, SMALL.but(keys=4), SMALL)),
        CallSequence("behaviour/other_numbers", "the same shape with other numbers",
            in_turn(SMALL, SMALL.but(name="behaviour/small_too"))),
        CallSequence("behaviour/same_pointers", "other numbers behind the same pointers", same_storage(SMALL)),
        CallSequence("behaviour/one_tensor", "one tensor is given as query, key and value", one_tensor(SMALL)),
        CallSequence("behaviour/second_thread", "another thread", two_threads(SMALL)),
        CallSequence("behaviour/second_thread_gradient", "gradients in another thread", two_threads(LEARNING)),
        CallSequence("behaviour/without_gradients", "no_grad agrees with grad mode", modes(SMALL)),
        case("behaviour/one_key_one_query", "the output of one key is a copy of its value, not the value", length=1),
        case("behaviour/options_spelled_out", "every option at its default, as callers pass them on", spelled_out=True),
        case("behaviour/one_key", "a single value handed to every query", keys=1),
    ]  # fmt: skip


def same_storage(case: AttentionCase) -> MakeCalls:
    changed = case.but(name=case.name + "_changed")
    return lambda draw: (draw(case), replace(draw(changed), same_storage=True))


def in_turn(*cases: AttentionCase) -> MakeCalls:
    return lambda draw: tuple(draw(case) for case in cases)


def one_tensor(case: AttentionCase) -> MakeCalls:
    return lambda draw: (as_one_tensor(draw(case.but(name="", keys=case.queries))),)


def two_threads(case: AttentionCase) -> MakeCalls:
    return lambda draw: (draw(case), replace(draw(case), own_thread=True))


def modes(case: AttentionCase) -> MakeCalls:
    learning = case.but(gradient_of=INPUTS)
    return lambda draw: (draw(learning), replace(draw(case), grad_mode=False))


TILED = gradients("order/tiled", "", batch=1, queries=70, keys=130, width=16)


def order() -> list[Case]:
    """Backward passes run after other calls, twice, or in another thread; gradients outlive all of them."""
    evaluated = SMALL.but(name="order/evaluated")
    return [
        CallSequence("order/first_goes_back_first", "forward A, forward B, backward A, backward B",
            interleaved(LEARNING)),
        CallSequence("order/last_goes_back_first", "forward A, forward B, backward B, backward A",
            interleaved(LEARNING, (1, 0))),
        CallSequence("order/other_options_between", "a call with other options, between forward and backward",
            interleaved(LEARNING, (0,), scale=-0.6)),
        CallSequence("order/causal_between", "a causal call, between forward and backward",
            interleaved(LEARNING, causal=True)),
        CallSequence("order/tiled", "across tiles", interleaved(TILED), ("float32", "float16")),
        CallSequence("order/evaluated_between", "a call without gradients, between forward and backward",
            lambda draw: (forward_of(learning := draw(LEARNING)), replace(draw(evaluated), grad_mode=False),
                replace(learning, backward_of=0))),
        CallSequence("order/twice", "the backward pass runs twice through a graph that is kept", twice(LEARNING)),
        CallSequence("order/twice_tiled", "the same across tiles", twice(TILED), ("float32", "float16")),
        CallSequence("order/backward_in_another_thread", "forward here, backward there",
            lambda draw: (forward_of(learning := draw(LEARNING)),
                replace(learning, backward_of=0, own_thread=True))),
        CallSequence("order/gradients_outlive_calls", "gradients are the caller's, whatever is called later",
            lambda draw: tuple(draw(LEARNING.but(name=f"{LEARNING.name}_{number}")) for number in range(3))),
    ]  # fmt: skip


def forward_of(call: Call) -> Call:
    """The forward pass alone, whose backward pass a later call runs."""
    return replace(call, gradient_of=(), output_gradient=None, requires_gradient=call.gradient_of)


def interleave(calls: Calls, order: tuple[int, ...] = (0, 1)) -> Calls:
    """All forward passes, then the backward passes in this order."""
    return (*map(forward_of, calls), *(replace(calls[number], backward_of=number) for number in order))


def interleaved(case: AttentionCase, order: tuple[int, ...] = (0, 1), **unusual: Any) -> MakeCalls:
    """Two calls of a case, of other numbers and with something unusual about the second."""
    other = case.but(name=case.name + "_other", **unusual)
    return lambda draw: interleave((draw(case), draw(other)), order)


def twice(case: AttentionCase) -> MakeCalls:
    """The second time with another output gradient."""
    other = case.but(name=case.name + "_other")
    return lambda draw: (draw(case), replace(draw(case), output_gradient=draw(other).output_gradient, backward_of=0))


@dataclass(frozen=True)
class SharedTensor(PerCallCase):
    """A call in which several inputs are one tensor; its gradient is requested by the first of their names."""

    name: str
    why: str
    roles: tuple[str, ...]
    base: AttentionCase
    dtypes: tuple[str, ...] = FAST

    def calls(self, dtype: str) -> Calls:
        call = self.base.but(name=self.name, keys=self.base.queries).call(dtype)
        shared = dict.fromkeys(self.roles, call.tensors[self.roles[0]])
        others = tuple(name for name in INPUTS if name not in self.roles)
        wanted = (self.roles[0], *others)
        return (replace(call, tensors={**call.tensors, **shared}, same_tensor=self.roles, gradient_of=wanted),)

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[WithinBounds, ...]:
        (call,) = calls
        separate = expected_result(replace(call, gradient_of=INPUTS), conventions)
        gradients = {name: gradient for name, gradient in separate.gradients.items() if name in call.gradient_of}
        parts = [separate.gradients[role] for role in self.roles]
        gradients[self.roles[0]] = total(parts, PRECISIONS[dtype_of(call)].unit)
        shapes = {name: separate.form.gradients[name] for name in gradients}
        return (replace(separate, form=replace(separate.form, gradients=shapes), gradients=gradients),)


def total(parts: Sequence[Bounded], unit: float) -> Bounded:
    """The sum of rounded gradients. Each addition, in the dtype and in any order, may round what it has so far."""
    value, bound = (np.sum([getattr(part, what) for part in parts], axis=0) for what in ("value", "bound"))
    size = np.sum([abs(part.value).astype(np.float64) + part.bound for part in parts], axis=0)
    return Bounded(value, bound + (len(parts) - 1) * unit * size)


def roles() -> list[SharedTensor]:
    """Self-attention with one tensor, as a layer without projections calls it."""
    square = gradients("roles/square", "", queries=7)
    rows = {
        "all_three": ("one tensor is query, key and value", INPUTS, square),
        "query_and_key": ("one tensor is query and key", ("query", "key"), square),
        "key_and_value": ("one tensor is key and value", ("key", "value"), square),
        "query_and_value": ("one tensor is query and value", ("query", "value"), square),
        "causal": ("all three under causal", INPUTS, square.but(causal=True)),
        "grouped": ("key and value of fewer heads", ("key", "value"), square.but(heads=4, key_heads=2)),
    }
    return [SharedTensor(f"roles/{name}", *row) for name, row in rows.items()]


def threads() -> list[Case]:
    """Rows, heads and items that do not divide among the threads; and calls of one shape at the same moment."""
    shared = partial(case, heads=1, dtypes=("float32", "float16"))
    rows = shared("threads/rows", "rows that leave a remainder", batch=1, queries=131, keys=77, width=16)
    items = shared("threads/items", "items and heads that leave a remainder", batch=5, queries=20, keys=40)
    backward = rows.but("threads/gradients", "the same backward", queries=67, gradient_of=INPUTS)
    several = [rows, items, backward, rows.but("threads/one_query", "keys of one query", queries=1, keys=301)]
    at_once = [case(f"threads/called_at_once_{n}", "", batch=1, heads=2, length=130, width=16) for n in range(4)]
    return [
        *(LayoutCase(case.but(name=f"{case.name}_on_{count}"), partial(replace, threads=count))
            for case in several for count in (2, 3)),
        CallSequence("threads/called_at_once", "four threads call at the same moment, each with numbers of its own",
            lambda draw: tuple(replace(draw(case), at_once=True) for case in at_once), ("float32",)),
    ]  # fmt: skip


MET: dict[str, dict[str, Any]] = {
    "masked": {"mask": Mask()},
    "biased": {"mask": Mask("float")},
    "causal": {"causal": True},
    "windowed": {"window": (2, 1)},
    "grouped": {"heads": 4, "key_heads": 2},
    "scaled": {"scale": 0.7},
}
"""Features that a path for evaluation, or numbers in the default dtype, may break."""


def state() -> list[Case]:
    """The output depends on the arguments alone."""
    empty = SMALL.but(keys=0)
    hidden = SMALL.but(mask=Mask(pattern="nothing", axes="b11s"))
    return [
        *(CallSequence(f"state/no_grad_{name}", f"no_grad agrees with grad mode: {name}", modes(SMALL.but(**unusual)))
            for name, unusual in MET.items()),
        *(_under(f"state/default_{dtype}", f"torch's default dtype is {dtype}", SMALL, dtype)
            for dtype in ("bfloat16", "float64")),
        *(_under(f"state/default_{dtype}_{name}", f"the same: {name}", SMALL.but(**unusual), dtype) for name,
            unusual in MET.items() for dtype in ("bfloat16", "float64")),
        *(_under(f"state/default_{dtype}_gradient", "the same with gradients", LEARNING, dtype)
            for dtype in ("bfloat16", "float64")),
        LayoutCase(SMALL.but("state/inference", "under inference_mode"), partial(replace, inference=True)),
        LayoutCase(SMALL.but("state/inference_masked", "the same with a mask", mask=Mask()),
            partial(replace, inference=True)),
        CallSequence("state/written_output", "an output is written to, and the call made again", written(SMALL)),
        CallSequence("state/written_zeros", "zeros for no keys are written to, and the call made again",
            written(empty)),
        CallSequence("state/written_empty_rows", "zeros for empty rows are written to, and the call made again",
            written(hidden)),
        CallSequence("state/written_mean", "with one key every row of the output has memory of its own",
            written(SMALL.but(keys=1))),
    ]  # fmt: skip


def _under(name: str, why: str, base: AttentionCase, default: str) -> Case:
    """In every dtype but the default one, where nothing would show."""
    dtypes = ("float32", "float16") if default == "bfloat16" else ("float32", "bfloat16")
    return LayoutCase(base.but(name, why, dtypes=dtypes), partial(replace, default_dtype=default))


def written(case: AttentionCase) -> MakeCalls:
    return lambda draw: (replace(draw(case), written=True), draw(case))


def cases() -> list[Case]:
    """All of them."""
    return [*behaviour(), *order(), *threads(), *state(), *roles()]


def with_tensors(call: Call, **changed: Tensor) -> Call:
    return replace(call, tensors={**call.tensors, **changed})


def followed_by(case: AttentionCase, change: Callable[[Call], Call]) -> MakeCalls:
    """A call and the same one changed in a way that must not matter, or must matter in one way alone."""
    return lambda draw: (call := draw(case), change(call))


def last_keys(call: Call) -> Call:
    """As many of the last keys as there are queries: a slice of the same memory."""
    queries = call.tensors["query"].shape[-2]
    return with_tensors(call, **{name: call.tensors[name][..., -queries:, :] for name in ("key", "value")})


def metamorphic() -> list[Case]:
    """A change of a call whose effect is known."""
    return [
        CallSequence("metamorphic/one_item_alone", "one item and head alone equals it in the batch",
            followed_by(SMALL.but(name=""), lambda call: with_tensors(call, **{name: tensor[1:2, 1:2]
                for name, tensor in call.tensors.items()}))),
        CallSequence("metamorphic/last_keys", "a slice of the keys, then with the query's shape",
            followed_by(SMALL.but(name=""), last_keys)),
    ]  # fmt: skip
