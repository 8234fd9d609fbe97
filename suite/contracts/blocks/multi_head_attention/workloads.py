"""The workloads of multi-head attention: the documents' translator, forward and in training."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnsuite import cases
from attnsuite.cases import Call, Reply
from attnsuite.cases.expected import Form, WithinBounds
from attnsuite.cases.tensors import grown, moved
from attnsuite.cases.training import ExpectedStep, expected_step, repetition_loss, sampled_rows
from attnsuite.contracts.blocks.multi_head_attention.computation import MultiHead
from attnsuite.contracts.blocks.multi_head_attention.contract import POSITIONAL
from attnsuite.contracts.blocks.multi_head_attention.draws import case
from attnsuite.contracts.models.workloads import CPU, FORWARD, HALF, STEP_BYTES, STEP_FLOPS, TRAINED
from attnsuite.judging.precision import Bounded
from attnsuite.model import STEP

if TYPE_CHECKING:
    from attnsuite.judging.verdicts import Verdict

WEIGHTS = ("w_query", "w_key", "w_value", "w_output")


def workloads() -> list[Workload]:
    """All workloads, in the order of tables."""
    return [
        Workload("translation/10", "ten words a sentence, as the documents train their translator", 128, 10),
        Workload("translation/128", "longer sentences", 8, 128, profiles={"full": TRAINED["full"]}),
    ]


@dataclass(frozen=True)
class Workload(cases.Workload):
    """Attention of a sequence to itself, all maps without biases. Axes: query, key and value b l d, weights d d."""

    name: str
    why: str
    batch: int
    length: int
    width: int = 256
    heads: int = 4
    profiles: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: TRAINED)
    cores: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"cpu": CPU, "cuda": HALF})
    directions = (*FORWARD, STEP)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def shape(self) -> str:
        return f"batch {self.batch}, {self.heads} heads, length {self.length}, width {self.width}"

    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        random = torch.Generator().manual_seed(zlib.crc32(self.name.encode()))
        sizes: dict[str, tuple[int, ...]] = dict.fromkeys(POSITIONAL[:3], (self.batch, self.length, self.width))
        sizes |= dict.fromkeys(WEIGHTS, (self.width, self.width))

        def drawn(name: str, size: tuple[int, ...]) -> Tensor:
            numbers = torch.randn(size, generator=random) * (self.width**-0.5 if name in WEIGHTS else 1.0)
            return numbers.to(getattr(torch, dtype))

        meta = device == "meta"
        tensors = {
            name: torch.empty(size, dtype=getattr(torch, dtype), device="meta") if meta else drawn(name, size)
            for name, size in sizes.items()
        }
        return Call(tensors, {"num_heads": self.heads}, POSITIONAL, gradient_of=WEIGHTS if direction == STEP else ())

    def loss(self, output: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        return repetition_loss(output, inputs)

    def turned(self, call: Call, number: int) -> Mapping[str, Tensor]:
        """Queries, keys and values with moved numbers, queries that have grown."""
        found = {name: moved(call.tensors[name], number, place) for place, name in enumerate(POSITIONAL[:3])}
        return {**found, "query": grown(found["query"], number)}

    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        """Of the tensors a step reads inputs, output and their gradients, of the weights what Adam reads as well."""
        tokens, size = self.batch * self.length, getattr(torch, dtype).itemsize
        flops = 2.0 * tokens * self.width * (4 * self.width + 2 * self.length)
        activations, weights = 4.0 * tokens * self.width * size, 4.0 * self.width**2 * size
        if direction == STEP:
            flops, activations, weights = STEP_FLOPS * flops, 2 * activations, STEP_BYTES * weights
        return {"attended": flops, "convention": flops, "bytes": activations + weights, "tokens": float(tokens)}

    def rows(self, direction: str, random: Random) -> Mapping[str, Sequence[int]]:
        """All rows of one item; of a step some rows of every gradient."""
        if direction == STEP:
            return sampled_rows(self.call("float32", direction, device="meta"), random)
        item = random.randrange(self.batch)
        return {"output": range(item * self.length, (item + 1) * self.length)}

    def verdict(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]
    ) -> Verdict:
        if direction == STEP:
            return _learned(self, dtype, number).verdict(rows, found)
        return _expected(self, dtype, number, rows["output"][0] // self.length).verdict(Reply(found["output"]))

    def of_round(self, dtype: str, direction: str, number: int) -> Call:
        """The call of that round."""
        call = self.call(dtype, direction)
        return replace(call, tensors={**call.tensors, **self.turned(call, number)})


@lru_cache(maxsize=4)
def _expected(workload: Workload, dtype: str, number: int, item: int) -> WithinBounds:
    """The expected result of one item of a round, as rows."""
    call = workload.of_round(dtype, "forward", number)
    alone = {name: call.tensors[name][item : item + 1] for name in POSITIONAL[:3]}
    expected = case.due(replace(call, tensors={**call.tensors, **alone}), {})
    value, bound = (array.reshape(-1, workload.width) for array in (expected.output.value, expected.output.bound))
    return replace(expected, form=Form(value.shape, expected.form.dtype), output=Bounded(value, bound))


@lru_cache(maxsize=1)
def _learned(workload: Workload, dtype: str, number: int) -> ExpectedStep:
    """The expected step of a round, the same for all implementations."""
    return expected_step(_eager, workload.loss, workload.of_round(dtype, STEP, number), dtype)


def _eager(call: Call) -> Tensor:
    output: Tensor = MultiHead(wide=lambda numbers: numbers.dtype)(**call.tensors, **call.options)
    return output
