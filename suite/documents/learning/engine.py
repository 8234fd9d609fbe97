"""Tasks, the one training loop, and its checkpoints: a mean loss for each epoch, and a checkpoint after each.

One seed gives one curve, bit by bit, on one machine: every random number is drawn from one generator, whose state is in
the checkpoint; sums have a fixed order, because torch runs on one thread with deterministic algorithms.
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
"""Is called with the number of finished epochs and the number of all epochs."""
State = Mapping[str, Any]
"""`weights`, `optimiser`, `generator`, `curve` and `seconds`, as tensors, numbers, lists and dicts."""
OPTIMISERS: Mapping[str, type[torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


@dataclass(frozen=True)
class Training:
    """A model with its data, from one seed. The engine keeps no other state."""

    weights: Mapping[str, Tensor]
    """Leaf tensors that require a gradient, by name. The engine changes them in place."""
    batches: Callable[[torch.Generator], Iterable[Batch]]
    """The batches of one epoch; their order is drawn from the generator."""
    loss: Callable[[Batch, torch.Generator], Tensor]
    """The mean loss of a batch, a tensor without axes. Dropout is drawn from the generator; an attention backend draws
    from torch's own, which the engine seeds before each step."""
    scores: Callable[[], Mapping[str, float]]
    """Scores of the weights as they are, by name, on data that is not in the batches. Nothing in it is random."""
    baselines: Callable[[], Mapping[str, float]] = dict
    """Scores of simpler methods on the same data, such as logistic regression or chance."""


@dataclass(frozen=True)
class Task:
    """A model to train, and how it is scored. A row of results names the task, the attention and the seed."""

    name: str
    """Its name on the command line and in results/: `translation/transformer`."""
    says: str
    """What is learned, in one sentence without a full stop."""
    config: Mapping[str, Any]
    """Everything but seed and attention that determines the curve, as JSON holds it. The engine reads `epochs`,
    `learning_rate`, `optimiser` ("adam" by default, or "sgd"), `clip` (the largest norm of all gradients together) and
    `rate_falls` (whether the learning rate falls in equal steps to 0 after the last epoch)."""
    prepare: Callable[[Mapping[str, Any], int, Attention], Training]
    """Makes the training from the config, a seed and the backend. Draws nothing from torch's own generator."""
    needs: frozenset[str] = frozenset()
    """The features of the contract `attention` that the model needs of its backend."""
    uses: frozenset[str] = frozenset()
    """The features that it uses where the backend has them, and does without otherwise: dropout."""
    own: str = ""
    """The implementation named in results/ where the task takes no backend; empty where it takes one."""
    table: str = ""
    """The task in whose table its rows stand, where it has no table of its own."""
    printed: Mapping[str, float] | None = None
    """The documents' scores, by the names that `scores` has."""

    @property
    def recorded_name(self) -> str:
        """The task that its rows name."""
        return self.table or self.name

    @property
    def epochs(self) -> int:
        return int(self.config["epochs"])

    def changed(self, **config: Any) -> Task:
        """The task with other values in its config."""
        return replace(self, config={**self.config, **config})


@dataclass(frozen=True)
class TrainedModel:
    """A training that has ended: the weights, the mean loss of each epoch, and the scores."""

    weights: Mapping[str, Tensor]
    curve: tuple[float, ...]
    scores: Mapping[str, float]
    baselines: Mapping[str, float]
    seconds: float
    """Processor time of all epochs, those before a checkpoint included."""


def generator(seed: int, purpose: str) -> torch.Generator:
    """A generator for one purpose, independent of those for others."""
    mixed = hashlib.sha256(f"{seed} {purpose}".encode()).digest()  # the same on every machine, which hash() is not
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

    Raises UsageError when the loss or its gradient is not finite (the last epoch's checkpoint stays), and for a
    checkpoint that is damaged or of another configuration.
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
        torch.manual_seed(_seed(generator(seed, "scores")))  # the same, whether or not it began at a checkpoint
        with torch.no_grad():
            weights = {name: tensor.detach() for name, tensor in training.weights.items()}
            scores, baselines = dict(training.scores()), dict(training.baselines())
            return TrainedModel(weights, tuple(loop.curve), scores, baselines, loop.seconds)


@contextmanager
def deterministic() -> Iterator[None]:
    """One thread and deterministic algorithms; these and torch's own generator are restored afterwards."""
    with preserve_process_state():
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)  # a submission may have none
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
        make: Any = OPTIMISERS[config.get("optimiser", "adam")]
        self.optimiser: torch.optim.Optimizer = make(self.tensors, lr=config["learning_rate"])
        self.curve: list[float] = []
        self.seconds = 0.0

    def rate(self) -> float:
        first: float = self.task.config["learning_rate"]
        falls = first / self.task.epochs if self.task.config.get("rate_falls") else 0.0
        return first - falls * len(self.curve)

    def epoch(self, stays: str) -> None:
        """Train one epoch and note its mean loss. `stays` names the remaining checkpoint in errors."""
        began, losses = time.process_time(), []
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
        self.seconds += time.process_time() - began

    def step(self, batch: Batch) -> tuple[float, float]:
        """One step of the optimiser, unless something is not finite: the loss, and the norm of the gradient."""
        torch.manual_seed(_seed(self.random))
        self.optimiser.zero_grad()
        loss = self.training.loss(batch, self.random)
        with as_usage_error(f"{self.task.name}: the backward pass raised"), preserve_process_state(seeds=False):
            loss.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(self.tensors, self.clip))
        value = float(loss.detach())
        if math.isfinite(value) and math.isfinite(norm):
            self.optimiser.step()
        return value, norm

    def state(self) -> State:
        return {
            "weights": {name: tensor.detach() for name, tensor in self.training.weights.items()},
            "optimiser": self.optimiser.state_dict(),
            "generator": self.random.get_state(),
            "curve": list(self.curve),
            "seconds": self.seconds,
        }

    def restore(self, state: State) -> None:
        with torch.no_grad():
            for name, tensor in self.training.weights.items():
                tensor.copy_(state["weights"][name])
        self.optimiser.load_state_dict(state["optimiser"])
        self.random.set_state(state["generator"])
        self.curve, self.seconds = list(state["curve"]), state["seconds"]


# Checkpoints: the state after an epoch, in a file that is replaced atomically. A file begins with a line that has the
# SHA-256 of all bytes after it, because PyTorch's own format does not notice a damaged number.

FIRST_WORDS = b"attnsuite checkpoint, sha256 "
LONGEST = 200
"""Characters of a file's name that come from the training: file systems allow 255."""


@dataclass(frozen=True)
class Checkpoint:
    """The file of one training. `identity` is everything its weights depend on; a file of another one is refused."""

    path: Path
    identity: Mapping[str, Any]

    @classmethod
    def within(cls, folder: Path | None, name: str, identity: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint of this name in a folder, or in the user's cache, which has a folder for each identity."""
        folder = folder or cache() / "learning" / digest(identity)
        return cls(folder / f"{_file_name(name)}.checkpoint", identity)

    def read(self) -> State | None:
        """The state in the file, or None without a file.

        Raises UsageError, and leaves the file as it is, where it is damaged or of another identity.
        """
        if not self.path.exists():
            return None
        try:
            first, _, saved = self.path.read_bytes().partition(b"\n")
            if first + b"\n" != first_line(saved):
                raise ValueError("its bytes are not those that were written")
            stored = torch.load(io.BytesIO(saved), weights_only=True)
            identity, state = stored["identity"], stored["state"]
        except OSError as error:
            raise UsageError(f"the checkpoint {self.path} cannot be read: {error.strerror or error}") from None
        except Exception as error:  # damaged, or not a file that `write` writes
            says = f"{self.path} is no whole checkpoint of this version: move it away to begin anew"
            raise UsageError(says) from error
        if differences := list(_differences(identity, json.loads(json.dumps(self.identity)))):
            raise UsageError(
                f"the checkpoint {self.path} is of another configuration ({'; '.join(differences)}): "
                "delete it to begin anew, or name another folder"
            )
        return state  # type: ignore[no-any-return]

    def write(self, state: State) -> None:
        """Replace the file. Raises UsageError where it cannot be written; the former file then stays."""
        saved = io.BytesIO()
        torch.save({"identity": json.loads(json.dumps(self.identity)), "state": state}, saved)
        with file_errors(self.path, "written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(self.path, first_line(saved.getbuffer()) + saved.getbuffer())


def _file_name(name: str) -> str:
    """The name without characters that a file system refuses; different for each name."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]", "-", name)
    own = hashlib.sha256(name.encode(errors="backslashreplace")).hexdigest()[:8]
    return plain if plain == name.replace("/", "-") and len(plain) < LONGEST else f"{plain[:LONGEST]}.{own}"


def first_line(saved: bytes | memoryview) -> bytes:
    """The first line of a file that holds these bytes."""
    return FIRST_WORDS + hashlib.sha256(saved).hexdigest().encode() + b"\n"


def digest(identity: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits that stand for an identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _differences(actual: Any, expected: Any, name: str = "") -> Iterator[str]:
    """Each value that differs, in words."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in dict.fromkeys((*expected, *actual)):
            yield from _differences(actual.get(key), expected.get(key), f"{name}.{key}".strip("."))
    elif actual != expected:
        yield f"{name} is {actual!r:.40}, expected {expected!r:.40}"
