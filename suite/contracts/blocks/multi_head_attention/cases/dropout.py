"""Dropout on the weights: exact where it can be, statistical where it must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from suite import asking
from suite.asking import Call, Conventions, Reply
from suite.asking.question import Question, as_tensor, dtype_of, generator, hold, unfit
from suite.contracts.attention.features.dropout.draws import Judge, neighbours, seeds, share, successive_calls
from suite.contracts.blocks.multi_head_attention.cases.draws import Array, drawn, question
from suite.contracts.blocks.multi_head_attention.contract import BIASES, POSITIONAL
from suite.contracts.blocks.multi_head_attention.oracle import multi_head_attention
from suite.judging import compare
from suite.judging.verdicts import Verdict
from suite.records import DTYPES, Status


def heads_of(output: Array, heads: int) -> Array:
    """The heads of an output without a map, b l (h v) as b h l v."""
    return np.stack(np.split(output, heads, axis=-1), axis=1)


def showing_weights(call: Call) -> Call:
    """The same question, of which the output is the weights, b l (h s): the values of every head are the identity."""
    dtype = dtype_of(call)
    batch, keys = call.tensors["key"].shape[:2]
    hidden = ("value", "w_value", "b_value", "w_output", "b_output")
    tensors = {name: tensor for name, tensor in call.tensors.items() if name not in hidden}
    identity = np.eye(keys)
    tensors["value"] = as_tensor(np.stack([identity] * batch), dtype)
    tensors["w_value"] = as_tensor(np.concatenate([identity] * _heads(call), -1), dtype)
    return replace(call, tensors=tensors)


@dataclass(frozen=True)
class Kept(asking.Case):
    """Read the kept weights off an output over identity values, then hold the outputs against that very mask.

    The output is the weights after dropout: zero where dropped. A second call with the same seed drops the same ones,
    but has values, biases and an output map of its own.
    """

    name: str
    why: str
    of: Question
    mapped: bool = False
    """Whether there is a second call."""
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> tuple[Call, ...]:
        call = replace(self.of.calls(dtype)[0], seed=1)
        return (showing_weights(call), call) if self.mapped else (showing_weights(call),)

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> None:
        return None  # it depends on which weights are kept

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: None) -> Verdict:
        call, reply, dtype = calls[0], replies[0], getattr(torch, dtype_of(calls[0]))
        if complaint := unfit(reply, _shape(call), dtype):
            return complaint
        assert reply.output is not None
        kept = heads_of(compare.numbers(reply.output), _heads(call)) != 0
        possible = kept[_attended(call, kept.shape)]
        if possible.all() or not possible.any():
            dropped = "nothing" if possible.all() else "everything"
            return Verdict(Status.WRONG, f"dropout_p={call.options['dropout_p']} dropped {dropped}")
        known = replace(self.of, oracle=partial(multi_head_attention, kept=kept))
        verdicts = [hold(given, known.truth((one,), {}), dtype) for one, given in zip(calls, replies, strict=True)]
        found = next((verdict for verdict in verdicts if verdict.status != "passed"), verdicts[-1])
        return replace(found, output_wrong=False)  # another's draw is no diagnosis


@dataclass(frozen=True)
class Statistic(asking.Case):
    """Many draws at once, judged by `judge` from the kept pattern of each call (b h l s booleans)."""

    name: str
    why: str
    judge: Judge
    p: float = 0.3
    seeds: tuple[int | None, ...] = (11,)
    batch: int = 4
    heads: int = 4
    size: int = 12
    dtypes: tuple[str, ...] = ("float32",)

    def calls(self, dtype: str) -> tuple[Call, ...]:
        """All scores are equal."""
        inputs = drawn(
            generator(self.name), batch=self.batch, queries=self.size, keys=self.size, heads=self.heads,
            head_width=self.size, size=0.0,
        )  # fmt: skip
        tensors = {name: as_tensor(array, dtype) for name, array in inputs.items()}
        call = showing_weights(Call(tensors, {"num_heads": self.heads, "dropout_p": self.p}, POSITIONAL))
        return tuple(replace(call, seed=seed) for seed in self.seeds)

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> float:
        return self.p

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: float) -> Verdict:
        for call, reply in zip(calls, replies, strict=True):
            if complaint := unfit(reply, _shape(call), getattr(torch, dtype_of(call))):
                return complaint
        outputs = [compare.numbers(reply.output) for reply in replies if reply.output is not None]
        said = self.judge(calls, [heads_of(output, self.heads) != 0 for output in outputs], truth)
        return Verdict(Status.WRONG, said) if said else Verdict(Status.PASSED)


def dropout() -> Iterator[asking.Case]:
    """p = 0 and p = 1 exactly, masks read back exactly, and the statistics of many draws."""
    all_dropped = {"dropout_p": 1.0}
    yield question("dropout/zero", "p = 0 is exact", options={"dropout_p": 0.0})
    yield question("dropout/one", "p = 1 gives zeros in every head", options=all_dropped)
    yield question("dropout/one_causal", "the same under causal", options=all_dropped | {"is_causal": True})
    yield question("dropout/one_mapped", "the output's bias remains", options=all_dropped, out_width=5, biases=BIASES)
    yield _kept("kept", "kept weights are multiplied by 1/(1 − p)")
    yield _kept("kept_rarely_dropped", "1/(1 − p) far from 1/p", p=0.1)
    yield _kept("kept_mostly_dropped", "1/(1 − p) is 5", p=0.8)
    yield _kept("kept_causal", "the same under causal", is_causal=True)
    yield _kept("kept_masked", "the same under a mask", mask=lambda random: random.random((2, 1, 8, 8)) < 0.7)
    yield _kept("kept_mapped", "the same with other values, their bias and an output map", mapped=True)
    yield Statistic("dropout/share", "as many are kept as should be", share, p=0.1, batch=8, heads=8, size=16)
    yield Statistic("dropout/independent", "heads, items, queries and keys draw for themselves", neighbours)
    yield Statistic("dropout/seeds", "torch.manual_seed governs the draw", seeds, seeds=(3, 3, 4))
    yield Statistic("dropout/successive_calls", "the generator moves on", successive_calls, seeds=(3, None))


def _kept(name: str, why: str, p: float = 0.4, mapped: bool = False, is_causal: bool = False, **unusual: Any) -> Kept:
    """Value heads as wide as there are keys, so that both calls have the same sizes."""
    name, options = f"dropout/{name}", {"dropout_p": p} | ({"is_causal": True} if is_causal else {})
    if mapped:
        unusual |= {"out_width": 5, "biases": ("b_value", "b_output")}
    of = question(name, why, queries=8, keys=8, head_width=8, peak=1.0, options=options, **unusual)
    return Kept(name, why, of, mapped)


def _heads(call: Call) -> int:
    return int(call.options["num_heads"] or 0)


def _shape(call: Call) -> tuple[int, ...]:
    """The shape of an output without a map."""
    return (*call.tensors["query"].shape[:2], call.tensors["w_value"].shape[1])


def _attended(call: Call, shape: tuple[int, ...]) -> Array:
    """Which weights dropout could keep."""
    mask = call.tensors.get("attn_mask")
    allowed = np.ones(shape, dtype=bool) if mask is None else np.broadcast_to(mask.numpy(), shape)
    return np.tril(allowed) if call.options.get("is_causal") else allowed
