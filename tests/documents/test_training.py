"""Training: a seed determines the curve, a kill costs at most one epoch, faults are errors of one line."""

from __future__ import annotations

import io
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import SLOPE, TOY

import attnsuite
from attnsuite.documents.learning.engine import Checkpoint, Task, TrainedModel, generator, train
from attnsuite.model import UsageError

TESTS = Path(__file__).parents[1]
HOME = Path(attnsuite.__file__).parent.parent


class Killed(KeyboardInterrupt):
    """A stand-in for the end of the process."""


def nothing(*_: object, **__: object) -> torch.Tensor:
    raise AssertionError


def at(folder: Path, task: Task = TOY, seed: int = 0) -> Checkpoint:
    return Checkpoint.within(folder, "toy", {"seed": seed, "config": dict(task.config)})


def trained(folder: Path | None = None, task: Task = TOY, **options: Any) -> TrainedModel:
    return train(task, 0, nothing, checkpoint=at(folder, TOY) if folder else None, **options)


def with_loss(change: Callable[..., Any], task: Task = TOY) -> Task:
    """The task with another loss, a function of the original value and the weights."""

    def prepare(config: Any, seed: int, attention: Any) -> Any:
        training = TOY.prepare(config, seed, attention)
        (weight,) = training.weights.values()
        return replace(training, loss=lambda batch, random: change(training.loss(batch, random), weight))

    return replace(task, prepare=prepare)


def failing_at(call: int, error: BaseException) -> Task:
    calls = iter(range(100))

    def loss(value: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        if next(calls) == call:
            raise error
        return value

    return with_loss(loss)


# One seed, one curve


def test_a_seed_determines_all_bits_whatever_torch_s_own_generator_is() -> None:
    torch.manual_seed(1)
    first = train(TOY, 3, nothing)
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(3)), "torch's own generator is restored"

    again, other = train(TOY, 3, nothing), train(TOY, 4, nothing)

    assert first.curve == again.curve != other.curve
    assert torch.equal(first.weights["slope"], again.weights["slope"])


def test_it_learns_and_is_compared_with_a_baseline() -> None:
    found = trained(task=TOY.changed(epochs=60, dropout=0.0))

    assert len(found.curve) == 60
    assert found.curve[-1] < found.curve[0] / 4
    assert found.scores["error"] < 0.2
    assert found.baselines == {"zeros": pytest.approx(float(SLOPE.square().mean()))}


def test_gradients_are_clipped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim, "Adam", torch.optim.SGD)  # whose step is as long as the gradient

    def moved(clip: float | None) -> torch.Tensor:
        task = TOY.changed(epochs=1, learning_rate=0.001, clip=clip, dropout=0.0)
        return trained(task=task).weights["slope"] - torch.randn(4, generator=generator(0, "weights"))

    most = 3 * 0.001 * 0.5  # three batches, each at most as far as the learning rate times the norm
    assert 0.5 * most < moved(0.5).norm() <= most * (1 + 1e-4)
    assert moved(None).norm() > 2 * moved(0.5).norm()


def test_a_learning_rate_may_fall_to_zero_after_the_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    rates, step = list[float](), torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *arguments: Any, **options: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)

    trained(task=TOY.changed(epochs=4, rate_falls=True))

    assert rates == pytest.approx([0.1] * 3 + [0.075] * 3 + [0.05] * 3 + [0.025] * 3)


# Checkpoints


@pytest.mark.parametrize("epoch", [1, 4, 6])
@pytest.mark.parametrize("config", [{}, {"rate_falls": True}], ids=["constant rate", "falling rate"])
def test_a_resumed_training_has_the_same_bits(tmp_path: Path, epoch: int, config: Any) -> None:
    task, seen = TOY.changed(**config), list[int]()
    whole = trained(task=task)

    def end(done: int, _: int) -> None:
        if done == epoch:
            raise Killed

    with pytest.raises(Killed):
        trained(tmp_path, task, watch=end)
    resumed = trained(tmp_path, task, watch=lambda done, _: seen.append(done))

    assert seen[0] == epoch
    assert (resumed.curve, resumed.scores) == (whole.curve, whole.scores)
    assert torch.equal(resumed.weights["slope"], whole.weights["slope"])


def test_an_interrupted_epoch_is_repeated(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        trained(tmp_path, failing_at(7, Killed()))

    assert trained(tmp_path).curve == trained().curve


@pytest.mark.slow
def test_a_killed_training_resumes_to_the_same_bits(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from test_training import TOY, at, nothing, train\n"
        f"train(TOY.changed(epochs=2000), 0, nothing, checkpoint=at(Path({str(tmp_path)!r})))"
    )
    path = os.pathsep.join(map(str, (TESTS, TESTS / "documents", HOME)))
    checkpoint = at(tmp_path)
    with subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}) as process:
        while process.poll() is None and not (checkpoint.path.exists() and (checkpoint.read() or {})["curve"]):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    done = len((checkpoint.read() or {})["curve"])

    assert 0 < done < 2000
    assert trained(tmp_path, TOY.changed(epochs=done + 3)).curve == trained(task=TOY.changed(epochs=done + 3)).curve


def test_a_finished_training_is_not_repeated_and_leaves_one_file(tmp_path: Path) -> None:
    first, before = trained(tmp_path), at(tmp_path).path.read_bytes()
    again = trained(tmp_path)

    assert (again.curve, again.scores) == (first.curve, first.scores)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_random_scores_are_the_same_after_a_checkpoint(tmp_path: Path) -> None:
    def drawing(config: Any, seed: int, attention: Any) -> Any:
        return replace(TOY.prepare(config, seed, attention), scores=lambda: {"drawn": float(torch.rand(()))})

    task = replace(TOY, prepare=drawing)

    assert trained(tmp_path, task).scores == trained(tmp_path, task).scores != train(task, 1, nothing).scores


def test_another_configuration_has_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    other = TOY.changed(learning_rate=0.5)
    trained(tmp_path)
    train(other, 0, nothing, checkpoint=at(tmp_path, other))

    assert len(list(tmp_path.iterdir())) == 2


def saved(what: object) -> bytes:
    file = io.BytesIO()
    torch.save(what, file)
    return file.getvalue()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "another program's": lambda data: b"a page\n",
    "another object": lambda data: saved([1]),
    "without a state": lambda data: saved({"identity": {}}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_checkpoint_is_refused_and_unchanged(tmp_path: Path, damage: str) -> None:
    trained(tmp_path)
    at(tmp_path).path.write_bytes(damaged := DAMAGES[damage](at(tmp_path).path.read_bytes()))

    with pytest.raises(UsageError, match=r"\.checkpoint is damaged, or of another version; move it away"):
        trained(tmp_path)

    assert at(tmp_path).path.read_bytes() == damaged


def test_an_unusable_checkpoint_is_an_error_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    at(tmp_path).path.mkdir()

    for folder, message in ((tmp_path / "file", "cannot be written: "), (tmp_path, "cannot be read: Is a directory$")):
        with pytest.raises(UsageError, match=rf"{message}"):
            trained(folder, watch=nothing)


def test_each_training_has_its_own_file_with_a_valid_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path))
    one, other = (Checkpoint.within(None, "a/b", {"seed": seed}).path for seed in (0, 1))
    names = ["a/b", "a/b c", "a/b:c", "a/b-c", "a/é", "a/è", "a/" + 300 * "n", "a/" + 300 * "n" + "m"]
    files = [Checkpoint.within(tmp_path, name, {}).path.name for name in names]

    assert len(set(files)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.+-]{1,230}", file) for file in files)
    assert one != other
    assert tmp_path in one.parents


# Faults


class Stuck(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradient: Any) -> Any:
        raise NotImplementedError("odd widths")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value, weight: math.nan * value, r"^toy: the loss is nan in epoch 3, batch 1, "),
        (lambda value, weight: (weight * 0).sum().sqrt(), r"^toy: the gradient's norm is nan in epoch 3, batch 1, "),
        (
            lambda value, weight: Stuck.apply(value),
            r"^toy raised NotImplementedError: odd widths \(",
        ),
    ],
    ids=["loss", "gradient", "backward pass"],
)
def test_a_loss_or_gradient_that_is_not_finite_is_an_error_and_the_checkpoint_stays(
    tmp_path: Path, change: Callable[..., Any], message: str
) -> None:
    trained(tmp_path, TOY.changed(epochs=2))
    before = at(tmp_path).path.read_bytes()

    with pytest.raises(UsageError, match=message + r".*; the checkpoint of epoch 2 stays in .*toy"):
        trained(tmp_path, with_loss(change))

    assert at(tmp_path).path.read_bytes() == before


def test_an_error_of_an_attention_names_epoch_and_batch(tmp_path: Path) -> None:
    error = UsageError("attention/odd raised in training: ValueError: no")

    with pytest.raises(
        UsageError, match=r"raised in training: ValueError: no \(in epoch 3, batch 2; the checkpoint of"
    ):
        trained(tmp_path, failing_at(7, error))
