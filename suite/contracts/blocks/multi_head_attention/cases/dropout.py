"""Dropout on the weights: exact where it can be, statistical where it must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Calls, Case, ChangedCase, Conventions
from attnsuite.cases.expected import Expected, Form
from attnsuite.cases.random_cases import SEED, CountedCase, DropoutCase, DropoutReader
from attnsuite.cases.tensors import PRECISE, Array, as_tensor, dtype_of, identity_values
from attnsuite.contracts.blocks.multi_head_attention.cases.draws import asked
from attnsuite.contracts.blocks.multi_head_attention.contract import BIASES
from attnsuite.judging.patterns import Judge, Seeds, kept, neighbours, repeated


def heads_of(output: Array, heads: int) -> Array:
    """The heads of an output without a map, b l (h v) as b h l v."""
    return np.stack(np.split(output, heads, axis=-1), axis=1)


def showing_weights(call: Call) -> Call:
    """The same call with identity values in every head, so that the output is the weights, b l (h s)."""
    items, keys = call.tensors["key"].shape[:2]
    hidden = ("value", "w_value", "b_value", "w_output", "b_output")
    tensors = {name: tensor for name, tensor in call.tensors.items() if name not in hidden}
    identity = identity_values(items, keys)
    tensors["value"] = as_tensor(identity, dtype_of(call))
    tensors["w_value"] = as_tensor(np.concatenate([np.eye(keys)] * _heads(call), -1), dtype_of(call))
    return replace(call, tensors=tensors)


class Showing(ChangedCase):
    """Another case, whose call shows its weights, with a seed; then, if it is `mapped`, that case's call as it is."""

    def __init__(self, of: Case, mapped: bool = False) -> None:
        super().__init__(of)
        self.mapped = mapped

    def calls(self, dtype: str) -> Calls:
        call = replace(self.of.calls(dtype)[0], seed=1)
        return (showing_weights(call), call) if self.mapped else (showing_weights(call),)


@dataclass(frozen=True)
class DroppedInHeads(DropoutReader):
    """How the kept weights are read off the heads side by side."""

    def form(self, call: Call) -> Form:
        shape = (*call.tensors["query"].shape[:2], call.tensors["w_value"].shape[1])
        return Form(shape, getattr(torch, dtype_of(call)), pair=True)

    def kept(self, call: Call, output: Array) -> Array:
        kept: Array = heads_of(output, _heads(call)) != 0
        return kept

    def possible(self, call: Call, kept: Array) -> Array:
        mask = call.tensors.get("attn_mask")
        allowed = np.ones(kept.shape, dtype=bool) if mask is None else np.broadcast_to(mask.numpy(), kept.shape)
        return np.tril(allowed) if call.options.get("is_causal") else allowed

    def due(self, call: Call, kept: Array, conventions: Conventions) -> Expected:
        (due,) = asked.dues((call,), conventions, kept=kept)
        return due


def dropout() -> Iterator[Case]:
    """p = 0 and p = 1 exactly, masks read back exactly, and the statistics of many draws."""
    yield asked("dropout/zero", "p = 0 is exact", dropout_p=0.0)
    yield asked("dropout/one", "p = 1 gives zeros in every head", dropout_p=1.0)
    yield asked("dropout/one_causal", "the same under causal", dropout_p=1.0, is_causal=True)
    yield asked("dropout/one_mapped", "the output's bias remains", dropout_p=1.0, out_width=5, biases=BIASES)
    yield _kept("kept", "kept weights are multiplied by 1/(1 − p)")
    yield _kept("kept_rarely_dropped", "1/(1 − p) far from 1/p", p=0.1)
    yield _kept("kept_mostly_dropped", "1/(1 − p) is 5", p=0.8)
    yield _kept("kept_causal", "the same under causal", is_causal=True)
    yield _kept("kept_masked", "the same under a mask", mask=lambda random: random.random((2, 1, 8, 8)) < 0.7)
    yield _kept("kept_one_query", "the same for a single query and a single head", batch=6, queries=1, num_heads=1)
    yield _kept("kept_mapped", "the same with other values, their bias and an output map", mapped=True)
    yield _counted("share", "as many are kept as should be", kept, p=0.1, items=16, num_heads=8, size=26)
    yield _counted("independent", "heads, items, queries and keys draw for themselves", neighbours)
    yield _counted("seeds", "torch.manual_seed governs the draw", repeated, seeds=(3, 3, 4))
    yield _counted("successive_calls", "the generator moves on", repeated, seeds=(3, None))


def dropped_weights() -> Iterator[Case]:
    """Attention weights beside an output of which dropout took a part: those before it."""
    usual: dict[str, Any] = {"queries": 8, "keys": 8, "head_width": 8, "peak": 1.0, "need_weights": True}
    yield asked("weights/all_dropped", "those before dropout, of everything", PRECISE, dropout_p=1.0, need_weights=True)
    yield DropoutCase(Showing(asked("weights/dropped", "those before dropout, whose draw the output shows", PRECISE,
                             dropout_p=0.4, is_causal=True, **usual)), DroppedInHeads())  # fmt: skip


def _kept(name: str, why: str, p: float = 0.4, mapped: bool = False, **unusual: Any) -> DropoutCase:
    """Value heads as wide as there are keys, so that both calls have the same sizes."""
    if mapped:
        unusual |= {"out_width": 5, "biases": ("b_value", "b_output")}
    usual = {"queries": 8, "keys": 8, "head_width": 8, "peak": 1.0}
    of = asked(f"dropout/{name}", why, dropout_p=p, **(usual | unusual))
    return DropoutCase(Showing(of, mapped), DroppedInHeads())


def _counted(
    name: str,
    why: str,
    judge: Judge,
    seeds: Seeds = (SEED,),
    *,
    p: float = 0.3,
    items: int = 4,
    num_heads: int = 4,
    size: int = 14,
) -> CountedCase:
    """Many draws at once. All scores are equal."""
    of = asked(
        f"dropout/{name}", why, ("float32",), batch=items, queries=size, keys=size, num_heads=num_heads,
        head_width=size, size=0.0, dropout_p=p,
    )  # fmt: skip
    return CountedCase(Showing(of), DroppedInHeads().form, DroppedInHeads().count(judge, p, seeds), seeds)


def _heads(call: Call) -> int:
    return int(call.options["num_heads"] or 0)
