"""Workloads of models: forward passes, verified on one item of the batch, and training steps, verified by gradients."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import torch

from attnsuite import cases as asking
from attnsuite.cases import Call, Reply
from attnsuite.cases.expected import Form, NearInNorm
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


@dataclass(frozen=True)
class ModelWorkload(asking.Workload):
    """One model. `inputs` makes the inputs of round 0; `vocabularies` names the inputs whose tokens change."""

    name: str
    why: str
    model: Model
    config: Config
    shapes: Callable[[Config], Shapes]
    inputs: Callable[[torch.Generator], Mapping[str, Tensor]]
    length: int
    flops: float
    """Those of one call, two for each multiplication of a matrix product."""
    counted: Mapping[str, float]
    """The tokens or images of one call."""
    sizes: str
    vocabularies: Mapping[str, int] = field(default_factory=dict)
    profiles: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: USUALLY)
    cores: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"cpu": CPU, "cuda": HALF})
    learns: Loss | None = None
    """The loss of a training step; None if none is timed."""
    is_model = True

    @property
    def directions(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*FORWARD, STEP) if self.learns else FORWARD

    @property
    def shape(self) -> str:
        return self.sizes

    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        random, kind = torch.Generator().manual_seed(zlib.crc32(self.name.encode())), getattr(torch, dtype)
        tensors = {
            name: tensor.to(kind) if tensor.dtype.is_floating_point else tensor
            for name, tensor in self.inputs(random).items()
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

    def turned(self, call: Call, number: int) -> Mapping[str, Tensor]:
        """Other tokens, or images with moved and grown numbers."""
        changed = {}
        for place, (name, tensor) in enumerate(call.tensors.items()):
            if name in self.vocabularies:
                changed[name] = other_tokens(tensor, number, self.vocabularies[name], place)
            elif tensor.dtype.is_floating_point:
                changed[name] = grown(moved(tensor, number, place), number)
        return changed

    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        size = getattr(torch, dtype).itemsize
        weights = sum(float(np.prod(shape)) for shape in self.shapes(self.config).values())
        flops, bytes_ = (STEP_FLOPS, STEP_BYTES) if direction == STEP else (1.0, 1.0)
        flops, bytes_ = flops * self.flops, bytes_ * weights * size
        return {"attended": flops, "convention": flops, "bytes": bytes_, **self.counted}

    def rows(self, direction: str, random: Random) -> Mapping[str, Sequence[int]]:
        """All rows of one item; of a step some rows of every gradient."""
        if direction == STEP:
            return sampled_rows(self.call("float32", direction, device="meta"), random)
        call = self.call("float32", device="meta")
        first = call.tensors[call.positional[0]]
        rows = call.tensors[call.positional[-1]].shape[1] if self.vocabularies else 1
        item = random.randrange(len(first))
        return {"output": range(item * rows, (item + 1) * rows)}

    def verdict(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]
    ) -> Verdict:
        if direction == STEP:
            return _learned(self.name, number, dtype, self).verdict(rows, found)
        item = rows["output"][0] // len(rows["output"])
        return _expected(self.name, number, item, dtype, self).verdict(Reply(found["output"]))

    def errors(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]
    ) -> Mapping[str, float]:
        if direction == STEP:
            return {}
        item = rows["output"][0] // len(rows["output"])
        return _expected(self.name, number, item, dtype, self).relative(found["output"])

    def __hash__(self) -> int:
        return hash(self.name)


def sentences(config: Config, batch: int, length: int, random: torch.Generator) -> Mapping[str, Tensor]:
    """Sources and targets of a translator; every second source is padded by half."""
    lengths = torch.full((batch,), length)
    lengths[1::2] = (length + 1) // 2
    return {
        "source": torch.randint(config["source_vocab"], (batch, length), generator=random),
        "lengths": lengths,
        "target": torch.randint(config["target_vocab"], (batch, length), generator=random),
    }


@lru_cache(maxsize=4)
def _expected(name: str, number: int, item: int, dtype: str, workload: ModelWorkload) -> NearInNorm:
    """The expected result of one item of a round, the same for all implementations."""
    call = workload.call(dtype)
    tensors = {**call.tensors, **workload.turned(call, number)}
    alone = {name: tensor[item : item + 1] for name, tensor in tensors.items()}
    (expected,) = workload.model.dues([Call(alone, {}, call.positional, config=call.config, weights=call.weights)])
    rows = expected.value.reshape(-1, expected.value.shape[-1])
    return NearInNorm(Form(rows.shape, expected.form.dtype), rows, expected.allowed.reshape(-1))


@lru_cache(maxsize=1)
def _learned(name: str, number: int, dtype: str, workload: ModelWorkload) -> ExpectedStep:
    """The expected step of a round."""
    call = workload.call(dtype, STEP)
    call = replace(call, tensors={**call.tensors, **workload.turned(call, number)})
    return expected_step(partial(_eager, workload.model), workload.loss, call, dtype)


def _eager(model: Model, call: Call) -> Tensor:
    assert call.config is not None
    output: Tensor = model.eager(call.config, call.weights)(*(call.tensors[name] for name in call.positional))
    return output


def _drawn(name: str, shape: tuple[int, ...], random: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Initial weights: of size 1/√rows, norms of one."""
    size = shape[0] ** -0.5 if len(shape) == 2 else 0.1
    drawn = torch.randn(shape, generator=random) * size + ("norm" in name and name.endswith("weight"))
    return drawn.to(dtype)
