"""Workloads with trained weights: forward passes, verified on one item, and training steps, verified by gradients."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import torch

from attnsuite import cases
from attnsuite.cases import Call, Reply
from attnsuite.cases.expected import Expected, Form, NearInNorm
from attnsuite.cases.model import Config, Model, Shapes
from attnsuite.cases.tensors import grown, moved, other_tokens
from attnsuite.cases.training import ExpectedStep, Loss, expected_step, sampled_rows
from attnsuite.model import STEP

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.judging.verdicts import Verdict

CPU, HALF, FORWARD = ("float32",), ("bfloat16",), ("forward",)  # one half type: `full` is to fit into two hours
USUALLY = {"standard": FORWARD, "full": FORWARD}
TRAINED = {"standard": (*FORWARD, STEP), "full": (*FORWARD, STEP)}
"""The profiles of models with a training step."""
TRAINED_IN_FULL = {"standard": FORWARD, "full": (*FORWARD, STEP)}
"""The same for models whose training step takes too long for `standard`."""
STEP_FLOPS = 3.0
"""Matrix products of a step for each of a forward: backward has two, for the gradients of input and weights."""
STEP_BYTES = 9.0
"""How often a step moves the bytes of the weights, which a forward reads once: forward and backward read them, gradients
are written and read, and Adam reads and writes two moments and writes the weights."""


@dataclass(frozen=True, kw_only=True)
class TrainedWorkload(cases.Workload):
    """A batch of items whose outputs are computed independently. A name has one workload."""

    name: str
    why: str
    batch: int
    length: int
    profiles: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: USUALLY)
    cores: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"cpu": CPU, "cuda": HALF})
    directions = (*FORWARD, STEP)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    @abstractmethod
    def rows_of_item(self) -> int:
        """The rows of the output that belong to one item."""

    @abstractmethod
    def expected(self, dtype: str, number: int, item: int) -> Expected:
        """The expected output of one item of a round, as rows."""

    @abstractmethod
    def eager(self, call: Call) -> Tensor:
        """The output of a correct computation in the dtype of the call."""

    def call_of_round(self, dtype: str, direction: str, number: int) -> Call:
        """The call of a round."""
        call = self.call(dtype, direction)
        return replace(call, tensors={**call.tensors, **self.tensors_of_round(call, number)})

    def rows(self, direction: str, random: Random) -> Mapping[str, Sequence[int]]:
        """All rows of one item; of a step some rows of every gradient."""
        if direction == STEP:
            return sampled_rows(self.call("float32", direction, device="meta"), random)
        first = random.randrange(self.batch) * self.rows_of_item
        return {"output": range(first, first + self.rows_of_item)}

    def verdict(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]
    ) -> Verdict:
        if direction == STEP:
            return _learned(self, dtype, number).verdict(rows, found)
        return self.expected_rows(dtype, number, rows).verdict(Reply(found["output"]))

    def expected_rows(self, dtype: str, number: int, rows: Mapping[str, Sequence[int]]) -> Expected:
        """The expected output in the rows of one item."""
        return _output(self, dtype, number, rows["output"][0] // self.rows_of_item)

    def generator(self) -> torch.Generator:
        """The source of the numbers of round 0."""
        return torch.Generator().manual_seed(zlib.crc32(self.name.encode()))


@lru_cache(maxsize=4)
def _output(workload: TrainedWorkload, dtype: str, number: int, item: int) -> Expected:
    return workload.expected(dtype, number, item)


@lru_cache(maxsize=1)
def _learned(workload: TrainedWorkload, dtype: str, number: int) -> ExpectedStep:
    """The expected step of a round, the same for all implementations."""
    return expected_step(workload.eager, workload.loss, workload.call_of_round(dtype, STEP, number), dtype)


@dataclass(frozen=True, kw_only=True)
class ModelWorkload(TrainedWorkload):
    """One model of a config."""

    model: Model
    config: Config
    shapes: Callable[[Config], Shapes]
    inputs: Callable[[Config, int, int, torch.Generator], Mapping[str, Tensor]]
    """Draws the inputs of round 0 for a batch of a length."""
    flops: Callable[[Config, int], float]
    """Those of one item of a length, two for each multiplication of a matrix product."""
    sizes: str
    learns: Loss | None = None
    """The loss of a training step; None if none is timed."""
    is_model = True

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def directions(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*FORWARD, STEP) if self.learns else FORWARD

    @property
    def shape(self) -> str:
        tokens = f"{self.length} tokens to {self.length}, " if self.rows_of_item > 1 else ""
        return f"batch {self.batch}, {tokens}{self.sizes}"

    @property
    def rows_of_item(self) -> int:
        return self.length if "target_vocab" in self.config else 1

    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        random, kind = self.generator(), getattr(torch, dtype)
        tensors = {
            name: tensor.to(kind) if tensor.dtype.is_floating_point else tensor
            for name, tensor in self.inputs(self.config, self.batch, self.length, random).items()
        }
        weights = {
            name: torch.empty(shape, dtype=kind, device="meta")
            if device == "meta"
            else _drawn(name, shape, random, kind)
            for name, shape in self.shapes(self.config).items()
        }
        trained = tuple(weights) if direction == STEP else ()
        return Call(tensors, {}, self.model.positional, gradient_of=trained, config=self.config, weights=weights)

    def loss(self, output: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        return self.learns(output, inputs) if self.learns else super().loss(output, inputs)

    def tensors_of_round(self, call: Call, number: int) -> Mapping[str, Tensor]:
        """Other tokens, or images with moved and grown numbers."""
        changed = {}
        for place, (name, tensor) in enumerate(call.tensors.items()):
            if vocabulary := self.config.get(f"{name}_vocab"):
                changed[name] = other_tokens(tensor, number, vocabulary, place)
            elif tensor.dtype.is_floating_point:
                changed[name] = grown(moved(tensor, number, place), number)
        return changed

    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        size = getattr(torch, dtype).itemsize
        weights = sum(float(np.prod(shape)) for shape in self.shapes(self.config).values())
        flops, bytes_ = (STEP_FLOPS, STEP_BYTES) if direction == STEP else (1.0, 1.0)
        flops, bytes_ = flops * self.batch * self.flops(self.config, self.length), bytes_ * weights * size
        unit, count = ("tokens", self.batch * self.length) if self.rows_of_item > 1 else ("images", self.batch)
        return {"attended": flops, "convention": flops, "bytes": bytes_, unit: float(count)}

    def errors(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]
    ) -> Mapping[str, float]:
        if direction == STEP:
            return {}
        expected = self.expected_rows(dtype, number, rows)
        assert isinstance(expected, NearInNorm)
        return expected.relative(found["output"])

    def expected(self, dtype: str, number: int, item: int) -> NearInNorm:
        call = self.call_of_round(dtype, "forward", number)
        alone = {name: tensor[item : item + 1] for name, tensor in call.tensors.items()}
        (expected,) = self.model.expected_results([replace(call, tensors=alone)])
        rows = expected.value.reshape(-1, expected.value.shape[-1])
        return NearInNorm(Form(rows.shape, expected.form.dtype), rows, expected.allowed.reshape(-1))

    def eager(self, call: Call) -> Tensor:
        output: Tensor = self.model.eager(self.config, call.weights)(*(call.tensors[name] for name in call.positional))
        return output


def sentences(config: Config, batch: int, length: int, random: torch.Generator) -> Mapping[str, Tensor]:
    """Sources and targets of a translator; every second source is padded by half."""
    lengths = torch.full((batch,), length)
    lengths[1::2] = (length + 1) // 2
    return {
        "source": torch.randint(config["source_vocab"], (batch, length), generator=random),
        "lengths": lengths,
        "target": torch.randint(config["target_vocab"], (batch, length), generator=random),
    }


def _drawn(name: str, shape: tuple[int, ...], random: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Initial weights: of size 1/√rows, norms of one."""
    size = shape[0] ** -0.5 if len(shape) == 2 else 0.1
    drawn = torch.randn(shape, generator=random) * size + ("norm" in name and name.endswith("weight"))
    return drawn.to(dtype)
