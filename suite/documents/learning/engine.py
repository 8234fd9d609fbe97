"""Training: tasks, the training loop, and a checkpoint after each epoch.

On one machine a seed determines every bit of the curve. All random numbers come from one generator, whose state is in
the checkpoint, and torch runs on one thread with deterministic algorithms.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnsuite.machine.cached import cache
from attnsuite.model import UsageError
from attnsuite.model.files import file_errors, replace_bytes
from attnsuite.registry.loading import as_usage_error
from attnsuite.registry.side_effects import preserve_process_state

Attention = Callable[..., Tensor]
Batch = tuple[Tensor, ...]
Watch = Callable[[int, int], None]
"""A function of the number of finished epochs and the number of all epochs."""
State = Mapping[str, Any]
"""`weights`, `optimiser`, `generator`, `curve` and `seconds`, as tensors, numbers, lists and dicts."""


@dataclass(frozen=True)
class Training:
    """A model with its data, from one seed."""

    weights: Mapping[str, Tensor]
    """Leaf tensors that require a gradient, by name. The training loop changes them in place."""
    batches: Callable[[torch.Generator], Iterable[Batch]]
    """The batches of one epoch, in an order from the generator."""
    loss: Callable[[Batch, torch.Generator], Tensor]
    """The mean loss of a batch, a tensor without axes. Dropout uses the generator; an attention backend uses torch's
    own, which each step seeds."""
    scores: Callable[[], Mapping[str, float]]
    """Returns the scores of the current weights on held-out data, by name."""
    baselines: Callable[[], Mapping[str, float]] = dict
    """Returns the scores of simpler methods on the same data, such as logistic regression or chance, by name."""


@dataclass(frozen=True)
class Task:
    """A model to train, with its scores."""

    name: str
    """The name on the command line and in results/: `translation/transformer`."""
    says: str
    """A description, in one sentence without a full stop."""
    config: Mapping[str, Any]
    """Everything but seed and attention that determines the curve, as JSON. The training loop reads `epochs`,
    `learning_rate`, `clip` (the largest norm of all gradients together) and `rate_falls` (whether the learning rate
    falls in equal steps to 0 after the last epoch)."""
    prepare: Callable[[Mapping[str, Any], int, Attention], Training]
    """A function of the config, a seed and the backend. It does not use torch's own generator."""
    needs: frozenset[str] = frozenset()
    """Features of the contract `attention` that the backend must have."""
    uses: frozenset[str] = frozenset()
    """Optional features, which are left out where the backend lacks them: dropout."""
    own: str = ""
    """The implementation in rows of results/, for a task without a backend; empty for a task with one."""
    table: str = ""
    """The task under which its rows are recorded, if not its own name."""
    printed: Mapping[str, float] | None = None
    """The documents' scores, by name of the score."""

    @property
    def recorded_name(self) -> str:
        """The task in its rows."""
        return self.table or self.name

    @property
    def epochs(self) -> int:
        """The number of epochs in the config."""
        return int(self.config["epochs"])

    def changed(self, **config: Any) -> Task:
        """A copy of the task with changed entries of the config."""
        return replace(self, config={**self.config, **config})


@dataclass(frozen=True)
class TrainedModel:
    """The result of a training: weights, the mean loss of each epoch, and scores."""

    weights: Mapping[str, Tensor]
    curve: tuple[float, ...]
    scores: Mapping[str, float]
    baselines: Mapping[str, float]
    seconds: float
    """Processor time of all epochs, including those before a checkpoint."""


def generator(seed: int, purpose: str) -> torch.Generator:
    """A generator that differs for each seed and purpose."""
    mixed = hashlib.sha256(f"{seed} {purpose}".encode()).digest()  # unlike hash(), equal on every machine
    return torch.Generator().manual_seed(int.from_bytes(mixed[:8]) >> 1)


def train(
    task: Task,
    seed: int,
    attention: Attention,
    *,
    checkpoint: Checkpoint | None = None,
    watch: Watch = lambda epoch, epochs: None,
) -> TrainedModel:
    """Train a task's model, from its checkpoint if there is one, and score it.

    Raises UsageError for a loss or gradient that is not finite, in which case the last checkpoint stays, and for a
    damaged checkpoint.
    """
    with deterministic():
        training = task.prepare(task.config, seed, attention)
        loop = _Loop(task, training, generator(seed, "training"))
        if checkpoint:
            if state := checkpoint.read():
                loop.restore(state)
            else:
                checkpoint.write(loop.state())  # an unwritable checkpoint is an error before any training
        watch(len(loop.curve), task.epochs)
        while len(loop.curve) < task.epochs:
            stays = f"; the checkpoint of epoch {len(loop.curve)} stays in {checkpoint.path}" if checkpoint else ""
            loop.epoch(stays if loop.curve else "")
            if checkpoint:
                checkpoint.write(loop.state())
            watch(len(loop.curve), task.epochs)
        torch.manual_seed(_seed(generator(seed, "scores")))  # equal with and without a checkpoint
        with torch.no_grad():
            weights = {name: tensor.detach() for name, tensor in training.weights.items()}
            with as_usage_error(f"{task.name} raised"):
                scores = dict(training.scores())
            baselines = dict(training.baselines())
            return TrainedModel(weights, tuple(loop.curve), scores, baselines, loop.seconds)


@contextmanager
def deterministic() -> Iterator[None]:
    """Use one thread and deterministic algorithms; restore these and torch's own generator afterwards."""
    with preserve_process_state():
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)  # a submission may have no deterministic algorithm
        yield


def _seed(random: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=random))


class _Loop:
    """The state of a training."""

    def __init__(self, task: Task, training: Training, random: torch.Generator) -> None:
        config: Mapping[str, Any] = task.config
        self.task, self.training, self.random = task, training, random
        self.clip: float = math.inf if config.get("clip") is None else config["clip"]
        self.tensors = list(training.weights.values())
        self.optimiser = torch.optim.Adam(self.tensors, lr=config["learning_rate"])
        self.curve: list[float] = []
        self.seconds = 0.0

    def rate(self) -> float:
        """The learning rate of the next epoch."""
        first: float = self.task.config["learning_rate"]
        falls = first / self.task.epochs if self.task.config.get("rate_falls") else 0.0
        return first - falls * len(self.curve)

    def epoch(self, stays: str) -> None:
        """Train one epoch and add its mean loss to the curve. `stays` is the end of an error, about the checkpoint."""
        start, losses = time.process_time(), []
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        for number, batch in enumerate(self.training.batches(self.random), 1):
            where = f"in epoch {len(self.curve) + 1}, batch {number}"
            try:
                loss, norm = self.step(batch)
            except UsageError as error:
                raise UsageError(f"{error} ({where}{stays})") from error
            if not (math.isfinite(loss) and math.isfinite(norm)):
                what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {norm}"
                raise UsageError(f"{self.task.name}: {what} {where}, and should be finite{stays}")
            losses.append(loss)
        self.curve.append(math.fsum(losses) / len(losses))
        self.seconds += time.process_time() - start

    def step(self, batch: Batch) -> tuple[float, float]:
        """Return the loss and the norm of the gradient, after a step of the optimiser if both are finite."""
        torch.manual_seed(_seed(self.random))
        self.optimiser.zero_grad()
        with as_usage_error(f"{self.task.name} raised"), preserve_process_state(seeds=False):
            loss = self.training.loss(batch, self.random)
            loss.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(self.tensors, self.clip))
        value = float(loss.detach())
        if math.isfinite(value) and math.isfinite(norm):
            self.optimiser.step()
        return value, norm

    def state(self) -> State:
        """What a checkpoint stores."""
        return {
            "weights": {name: tensor.detach() for name, tensor in self.training.weights.items()},
            "optimiser": self.optimiser.state_dict(),
            "generator": self.random.get_state(),
            "curve": list(self.curve),
            "seconds": self.seconds,
        }

    def restore(self, state: State) -> None:
        """Continue from the state of a checkpoint."""
        with torch.no_grad():
            for name, tensor in self.training.weights.items():
                tensor.copy_(state["weights"][name])
        self.optimiser.load_state_dict(state["optimiser"])
        self.random.set_state(state["generator"])
        self.curve, self.seconds = list(state["curve"]), state["seconds"]


# Checkpoints: the state after an epoch, in a file that is replaced atomically.


@dataclass(frozen=True)
class Checkpoint:
    """The file of one training."""

    path: Path

    @classmethod
    def within(cls, folder: Path | None, name: str, identity: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint of this name in a folder, by default in the cache.

        `identity` is everything that determines the weights: another one has another file.
        """
        plain = re.sub(r"[^A-Za-z0-9_.+-]", "-", name)[:MAX_NAME]
        return cls((folder or cache() / "learning") / f"{plain}.{digest({'name': name, **identity})}.checkpoint")

    def read(self) -> State | None:
        """The state in the file, or None without a file. UsageError for a damaged file, which stays unchanged."""
        if not self.path.exists():
            return None
        try:
            state: State = torch.load(self.path, weights_only=True)["state"]
        except OSError as error:
            raise UsageError(f"the checkpoint {self.path} cannot be read: {error.strerror or error}") from None
        except Exception as error:  # not a file that `write` writes
            raise UsageError(f"{self.path} is damaged, or of another version; move it away to start again") from error
        return state

    def write(self, state: State) -> None:
        """Replace the file. Raises UsageError where it cannot be written; the former file stays."""
        saved = io.BytesIO()
        torch.save({"state": state}, saved)
        with file_errors(self.path, "written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(self.path, saved.getbuffer())


MAX_NAME = 200
"""Characters of a training's name in a file name: file systems allow 255."""


def digest(identity: Mapping[str, Any]) -> str:
    """A hash of an identity, 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
