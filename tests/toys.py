"""A task with a short training: a line through points."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnsuite.documents.learning.engine import Batch, Task, Training, generator

SLOPE = torch.tensor([1.0, -2.0, 3.0, 0.5])


def prepare(config: Mapping[str, Any], seed: int, attention: Callable[..., Tensor]) -> Training:
    draw = generator(seed, "weights")
    weight = torch.randn(4, generator=draw).requires_grad_()
    x = torch.randn(48, 4, generator=generator(0, "data"))
    y = x @ SLOPE

    def batches(random: torch.Generator) -> list[Batch]:
        return [(x[rows], y[rows]) for rows in torch.randperm(48, generator=random).split(16)]

    def loss(batch: Batch, random: torch.Generator) -> Tensor:
        kept = torch.rand(batch[0].shape, generator=random) >= config["dropout"]
        own = torch.rand(()) * 0.01  # as an attention backend draws, from torch's own generator
        return ((batch[0] * kept) @ weight - batch[1]).square().mean() + own * weight.square().sum()

    def scores() -> dict[str, float]:
        return {"error": float((weight - SLOPE).square().mean())}

    return Training({"slope": weight}, batches, loss, scores, lambda: {"zeros": float(SLOPE.square().mean())})


CONFIG = {"epochs": 6, "learning_rate": 0.1, "clip": 1.0, "dropout": 0.1}
TOY = Task("toy", "a line through points", CONFIG, prepare, own="toy/line")
