"""Grouped heads: several query heads share a key and value head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Case, Conventions
from attnsuite.cases.covering import Contradiction
from attnsuite.cases.mutants import Mutation, mutants
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense
from attnsuite.contracts.attention.computation.gradients import Backward, Saved
from attnsuite.contracts.attention.feature import Argument, Feature, Hooks, Levels, Step
from attnsuite.contracts.attention.lazily import np, torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.contracts.attention.oracle import Array, BackwardPass, ForwardPass


# The oracle's step


def _repeat(forward: ForwardPass) -> None:
    groups = forward.query.shape[1] // max(forward.key.shape[1], 1)
    if groups == 1:
        return
    forward.key, forward.value = (
        np.repeat(tensor, groups, axis=1) for tensor in (forward.key, forward.value)
    )  # b h s e|v
    forward.key_gradient_terms *= groups


def _sum_groups(forward: ForwardPass, backward: BackwardPass) -> None:
    key_heads = forward.problem.key.shape[1]
    for name in ("key", "value"):
        value, error = backward.inputs[name]
        backward.inputs[name] = (_grouped(value, key_heads), _grouped(error, key_heads))


def _grouped(array: Array, key_heads: int) -> Array:
    """Sum over the query heads that share a key/value head: b (g n) s e → b g s e."""
    batch, heads, *rest = array.shape
    if heads == key_heads:
        return array
    summed: Array = array.reshape(batch, key_heads, heads // key_heads, *rest).sum(axis=2)
    return summed


# The computation's steps


def _complaint(call: AttentionCall) -> str:
    if not call.grouped or (call["enable_gqa"] and call.key_heads and call.heads % call.key_heads == 0):
        return ""
    shapes = f"query {tuple(call.query.shape)}, key {tuple(call.key.shape)}, value {tuple(call.value.shape)}"
    return f"the key's heads must divide the query's, with enable_gqa: {shapes}"


def expand_heads(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    if key.dim() == 2 or key.shape[-3] == heads:
        return key, value
    group = heads // key.shape[-3]
    return key.repeat_interleave(group, dim=-3), value.repeat_interleave(group, dim=-3)  # ... h s e|v


def sum_group(gradient: Tensor, saved: Saved) -> Tensor:
    """From the query's heads to the key's."""
    return by_group(gradient, saved).sum(-3) if saved.call.grouped else gradient  # ... g s e|v


def by_group(gradient: Tensor, saved: Saved) -> Tensor:
    """The query's heads as groups of the key's: ... g h/g s e|v."""
    grouped: Tensor = gradient.unflatten(-3, (saved.call.key_heads, -1))
    return grouped


# Cases


def cases() -> Sequence[Case]:
    """Query head i reads key/value head i // (h/g)."""
    from attnsuite.contracts.attention.cases.bad_input import BadInput
    from attnsuite.contracts.attention.cases.case import case, gradients

    few, many = (dict.fromkeys(("key", "value"), (2, heads, 7, 8)) for heads in (3, 8))
    return [
        case("heads/two_groups", "4 query heads on 2 key heads, interleaved", heads=4, key_heads=2),
        case("heads/three_groups", "6 on 3: h/g differs from g", heads=6, key_heads=3),
        case("heads/multi_query", "8 on 1", heads=8, key_heads=1),
        case("heads/one_query", "decoding with grouped heads", heads=6, key_heads=2, queries=1, keys=20),
        case("heads/long", "grouped heads across tiles", heads=4, key_heads=2, queries=70, keys=130),
        case("heads/other_value_width", "grouped heads and value width", heads=6, key_heads=2, value_width=5),
        case("heads/rank_3", "heads are the leading axis of rank 3", batch=1, heads=4, key_heads=2, rank=3),
        case("no_keys/grouped", "s = 0 with grouped heads", keys=0, heads=4, key_heads=2),
        gradients("gradients/grouped", "summed over the query heads of a group", heads=6, key_heads=2),
        gradients("gradients/grouped_value_width", "a group's values of another width than its keys", heads=6,
            key_heads=2, value_width=5),
        case("gradients/grouped_value_alone", "summed over the group, value alone", gradient_of=("value",), heads=6,
            key_heads=2),
        case("gradients/grouped_key_alone", "summed over the group, key alone", gradient_of=("key",), heads=4,
            key_heads=1),
        BadInput("bad_input/heads_do_not_divide", "4 query heads on 3 key heads", few, {"enable_gqa": True}),
        BadInput("bad_input/more_key_heads", "4 query heads on 8 key heads", many, {"enable_gqa": True}),
        BadInput("bad_input/groups_without_asking", "4 query heads on 2 key heads without enable_gqa",
            dict.fromkeys(("key", "value"), (2, 2, 7, 8))),
        BadInput("bad_input/fewer_value_heads", "4 key heads and 2 value heads", {"value": (2, 2, 7, 8)},
            {"enable_gqa": True}),
    ]  # fmt: skip


# Mistakes


def _read(which: Callable[[int, int], int]) -> Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]:
    """Query head `head` reads the key and value head `which(head, g)`, if heads are grouped."""

    def step(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
        if key.dim() == 2 or key.shape[-3] == heads:
            return key, value
        chosen = [which(head, key.shape[-3]) for head in range(heads)]
        return key[..., chosen, :, :], value[..., chosen, :, :]

    return step


SOURCES = mutants(
    Dense,
    expand_heads={
        "tiles_key_heads": Mutation("query head i reads key head i mod g: tiled instead of interleaved",
            _read(lambda head, g: head % g), "onnx issue 7274"),
        "tiles_value_heads_only": Mutation("the keys' heads are interleaved but the values' are tiled",
            lambda key, value, heads: (expand_heads(key, value, heads)[0],
            _read(lambda head, g: head % g)(key, value, heads)[1])),
        "reads_first_key_head": Mutation("with grouped heads, all query heads read the first key head",
            _read(lambda head, g: 0), "multi-query paths"),
        "assumes_groups_of_two": Mutation("with grouped heads, a group is taken to be two query heads",
            _read(lambda head, g: min(head // 2, g - 1))),
    },
)  # fmt: skip


@Dense.instead("receive", "key heads that do not divide the query heads are accepted: some are shared unevenly")
def accepts_indivisible_heads(call: AttentionCall) -> AttentionCall:
    heads, key_heads = call.heads, call.key_heads
    if not call["enable_gqa"] or key_heads == 0 or heads % key_heads == 0:
        return call
    if call.value.shape[:-2] != call.key.shape[:-2]:
        return call
    which = [head * key_heads // heads for head in range(heads)]
    return replace(call, key=call.key[..., which, :, :], value=call.value[..., which, :, :])


def _summed_by(which: Callable[[int, int], int]) -> Any:
    """The gradient of query head `head` goes to key head `which(head, g)`, if there is one."""

    def step(gradient: Tensor, saved: Saved) -> Tensor:
        groups = saved.call.key_heads
        if not saved.call.grouped:
            return gradient
        own = torch.tensor([which(head, groups) for head in range(saved.call.heads)])
        return torch.stack([gradient[..., own == group, :, :].sum(-3) for group in range(groups)], -3)

    return step


BACKWARD = mutants(
    Backward,
    sum_group={
        "gives_gradients_to_wrong_key_heads": Mutation(
            "with grouped heads, the gradients of key and value go to the wrong key heads",
            _summed_by(lambda head, g: head // g), others=(_summed_by(lambda head, g: head % g),)),
        "averages_gradients_of_group": Mutation(
            "the gradients of a key head are averaged over its query heads, not summed",
            lambda gradient, saved: sum_group(gradient, saved) * (saved.call.key_heads / max(saved.call.heads, 1))),
        "keeps_last_gradient_of_group": Mutation(
            "only the last query head of a group reaches the gradients of its key head",
            lambda gradient, saved: by_group(gradient, saved)[..., -1, :, :] if saved.call.grouped else gradient),
    },
)  # fmt: skip


GROUPS: Mapping[str, int | None] = {"own_kv": None, **{f"groups_of_{n}": n for n in (2, 3, 7)}, "one_kv": 0}
"""Query heads that share a key head, 0 for all of them: kernels unroll these loops, or pack groups into tiles."""


def whole_groups(heads: int, group: int | None) -> int:
    """As many query heads as whole groups have, about `heads` and at least one group."""
    return group * max(heads // group, 1) if group else heads


def _groups(levels: Mapping[str, Any]) -> Mapping[str, Any]:
    """The heads of whole groups."""
    (_, heads), group = levels["items"], levels["key_heads"]
    if group is None:
        return {}
    heads = whole_groups(heads, group)
    return {"heads": heads, "key_heads": heads // (group or heads)}


LEVELS = Levels(
    {"key_heads": GROUPS},
    _groups,
    (
        Contradiction("a single head is no group", {"key_heads": tuple(GROUPS)[1:], "items": ("one_head",)}),
    ),
    unsupported="grouped heads",
)  # fmt: skip


def _in_torch(keys: str, value: bool | None, call: Call, conventions: Conventions) -> str:
    query, key = call.tensors["query"], call.tensors["key"]
    if not value or query.dim() == 2:
        return keys
    return f"{keys}.repeat_interleave({query.shape[-3] // key.shape[-3]}, -3)"


FEATURE = Feature(
    "heads", "source", LEVELS, Argument("enable_gqa", False, place=4),
    case_key="key_heads",
    decisions={"heads": "query head i reads key/value head i // (h/g)"},
    vocabulary={"gqa": "grouped key/value heads"},
    read_needs=lambda call: ("gqa",) if "enable_gqa" in call.options else (),
    draw=lambda key_heads, drawing: {"enable_gqa": True},
    oracle={"source": Step(_repeat, _sum_groups)},
    hooks=Hooks(
        source=lambda computation, key, value, call: computation.expand_heads(key, value, call.heads),
        source_gradient=lambda computation, gradient, saved: computation.sum_group(gradient, saved),
        steps={"expand_heads": expand_heads, "sum_group": sum_group},
    ),
    complaint=_complaint,
    cases=cases,
    aliases=dict.fromkeys(("gqa", "mqa", "grouped", "grouped_query", "multi_query", "enable_gqa", "groups"), "heads"),
    traits=lambda value, sizes: {"groups": ("grouped heads",
        f"groups of {sizes.heads // value} heads" if value else "no key heads")},
    in_torch=_in_torch,
)  # fmt: skip
