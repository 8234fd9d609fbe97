"""Training: one seed gives one curve, a kill costs one epoch at most, and what is not finite ends it in a line."""

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
from attnsuite.documents.learning.checkpoint import Checkpoint, _first_line, cache
from attnsuite.documents.learning.engine import deterministic, train
from attnsuite.documents.learning.task import Task, Training, generator
from attnsuite.model import UsageError

TESTS = Path(__file__).parents[2]
HOME = Path(attnsuite.__file__).parent.parent


class Killed(Exception):
    """Stands for a process that ends."""


def nothing(*_: object, **__: object) -> torch.Tensor:
    raise AssertionError


def at(folder: Path, task: Task = TOY, seed: int = 0) -> Checkpoint:
    return Checkpoint.within(folder, "toy", {"seed": seed, "config": dict(task.config)})


def test_the_same_seed_gives_the_same_bits() -> None:
    one, again = train(TOY, 3, nothing), train(TOY, 3, nothing)

    assert one.curve == again.curve
    assert torch.equal(one.weights["slope"], again.weights["slope"])


TRAINS_ALL_THAT_IS_IMPORTED_AHEAD = """
import sys
from pathlib import Path
from attnsuite.documents.learning import tasks
from attnsuite.documents.learning.engine import import_ahead
from attnsuite.documents.learning.trained import Job
from attnsuite.registry import find

(plug,) = find(["attention/matmul"])
jobs = [Job(task.changed(epochs=1), 0, None if task.own else plug) for task in tasks.of_table(sys.argv[1])]
import_ahead(job.task for job in jobs)
before = set(sys.modules)
for job in jobs:
    job.run(job.plug().attention, Path(sys.argv[2]))
libraries = ("torch", "sklearn", "scipy", "pandas")
print(sum(name.startswith(libraries) for name in set(sys.modules) - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["digits", "wrong-gradients/right"])
def test_a_training_imports_next_to_nothing_that_was_not_imported_for_all(task: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRAINS_ALL_THAT_IS_IMPORTED_AHEAD, task, str(tmp_path)]

    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(HOME)}
    )

    assert done.stderr == ""
    assert int(done.stdout) < 20, "PyTorch's compiler is 800 modules, scikit-learn with what it needs 500"


def test_another_seed_gives_another_curve() -> None:
    assert train(TOY, 3, nothing).curve != train(TOY, 4, nothing).curve


def test_what_torch_s_own_generator_was_before_changes_nothing_and_stays() -> None:
    torch.manual_seed(1)
    one = train(TOY, 3, nothing)
    drawn = torch.rand(3)
    torch.manual_seed(1)

    assert torch.equal(drawn, torch.rand(3))
    torch.manual_seed(2)
    assert train(TOY, 3, nothing).curve == one.curve


def test_it_learns_and_scores_stand_beside() -> None:
    found = train(replace(TOY, config={**TOY.config, "epochs": 60, "dropout": 0.0}), 0, nothing)

    assert len(found.curve) == 60
    assert found.curve[-1] < found.curve[0] / 4
    assert found.scores["error"] < 0.2
    assert found.beside == {"zeros": pytest.approx(float(SLOPE.square().mean()))}


@pytest.mark.parametrize("epoch", range(1, 6))
def test_ended_after_any_epoch_and_started_again_it_has_the_same_weights(tmp_path: Path, epoch: int) -> None:
    whole = train(TOY, 0, nothing)

    def end(done: int, _: int) -> None:
        if done == epoch:
            raise Killed

    with pytest.raises(Killed):
        train(TOY, 0, nothing, checkpoint=at(tmp_path), watch=end)
    seen: list[int] = []
    resumed = train(TOY, 0, nothing, checkpoint=at(tmp_path), watch=lambda done, _: seen.append(done))

    assert seen[0] == epoch
    assert resumed.curve == whole.curve
    assert torch.equal(resumed.weights["slope"], whole.weights["slope"])


def test_ended_in_the_midst_of_an_epoch_it_begins_that_epoch_again(tmp_path: Path) -> None:
    whole = train(TOY, 0, nothing)
    calls = iter(range(100))

    def failing(config, seed, attention):  # type: ignore[no-untyped-def]
        training = TOY.prepare(config, seed, attention)

        def loss(batch, random):  # type: ignore[no-untyped-def]
            if next(calls) == 7:
                raise Killed
            return training.loss(batch, random)

        return replace(training, loss=loss)

    with pytest.raises(Killed):
        train(replace(TOY, prepare=failing), 0, nothing, checkpoint=at(tmp_path))

    assert train(TOY, 0, nothing, checkpoint=at(tmp_path)).curve == whole.curve


@pytest.mark.slow
def test_killed_by_the_system_it_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    program = (
        "import time; from pathlib import Path; from test_engine import TOY, at, nothing, train\n"
        f"train(TOY.with_epochs(2000), 0, nothing, checkpoint=at(Path({str(tmp_path)!r}), TOY.with_epochs(2000)))"
    )
    path = os.pathsep.join(map(str, (TESTS, TESTS / "learning", HOME)))
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path})
    checkpoint, long = at(tmp_path, TOY.with_epochs(2000)), TOY.with_epochs(2000)
    while process.poll() is None and not (checkpoint.path.exists() and (checkpoint.read() or {})["curve"]):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    state = checkpoint.read()

    assert state is not None
    assert 0 < len(state["curve"]) < 2000
    short = replace(TOY, config={**TOY.config, "epochs": len(state["curve"]) + 3})
    assert train(short, 0, nothing, checkpoint=checkpoint).curve == train(short, 0, nothing).curve
    assert long.epochs == 2000


def test_a_finished_checkpoint_is_not_trained_again(tmp_path: Path) -> None:
    first = train(TOY, 0, nothing, checkpoint=at(tmp_path))
    before = at(tmp_path).path.read_bytes()
    again = train(TOY, 0, nothing, checkpoint=at(tmp_path))

    assert again.curve == first.curve
    assert again.scores == first.scores
    assert at(tmp_path).path.read_bytes() == before


# What cannot go on


def test_a_loss_that_is_nan_stops_and_the_checkpoint_before_it_stays(tmp_path: Path) -> None:
    train(TOY.with_epochs(2), 0, nothing, checkpoint=at(tmp_path))
    before = at(tmp_path).path.read_bytes()
    broken = replace(TOY, prepare=lambda *given: _with_loss(TOY.prepare(*given), math.nan))

    with pytest.raises(
        UsageError, match=r"^toy: the loss is nan in epoch 3, batch 1, .*; the checkpoint of epoch 2 stays"
    ):
        train(broken, 0, nothing, checkpoint=at(tmp_path))

    assert at(tmp_path).path.read_bytes() == before
    assert train(TOY, 0, nothing, checkpoint=at(tmp_path)).curve == train(TOY, 0, nothing).curve


def _with_loss(training: Training, factor: float) -> Training:
    return replace(training, loss=lambda batch, random: factor * training.loss(batch, random))


def test_a_gradient_that_is_not_finite_stops_before_the_weights_are_lost() -> None:
    def prepare(config, seed, attention):  # type: ignore[no-untyped-def]
        training = TOY.prepare(config, seed, attention)
        (weight,) = training.weights.values()
        return replace(training, loss=lambda batch, random: (weight * 0).sum().sqrt())  # 0 · ∞ in the gradient

    with pytest.raises(UsageError, match=r"^toy: the gradient's norm is nan in epoch 1, batch 1"):
        train(replace(TOY, prepare=prepare), 0, nothing)


def test_a_backward_pass_that_raises_is_one_line() -> None:
    class Stuck(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            raise NotImplementedError("odd widths")

    def prepare(config, seed, attention):  # type: ignore[no-untyped-def]
        training = TOY.prepare(config, seed, attention)
        return replace(training, loss=lambda batch, random: Stuck.apply(training.loss(batch, random)))

    with pytest.raises(
        UsageError, match=r"^toy: the backward pass raised NotImplementedError: odd widths \(in epoch 1, batch 1\)$"
    ):
        train(replace(TOY, prepare=prepare), 0, nothing)


def test_gradients_are_clipped_together() -> None:
    def moved(clip: float | None) -> torch.Tensor:
        config = {**TOY.config, "epochs": 1, "optimiser": "sgd", "learning_rate": 0.001, "clip": clip, "dropout": 0.0}
        begun = torch.randn(4, generator=generator(0, "weights"))
        return train(replace(TOY, config=config), 0, nothing).weights["slope"] - begun

    most = 3 * 0.001 * 0.5  # three batches, each at most as far as the learning rate times the norm
    assert 0.5 * most < moved(0.5).norm() <= most * (1 + 1e-4)
    assert moved(None).norm() > 2 * moved(0.5).norm()


# Checkpoints


def test_a_checkpoint_of_another_configuration_is_refused_and_left(tmp_path: Path) -> None:
    train(TOY.with_epochs(2), 0, nothing, checkpoint=at(tmp_path, TOY.with_epochs(2)))
    before = at(tmp_path).path.read_bytes()
    other = replace(TOY, config={**TOY.config, "learning_rate": 0.5})

    with pytest.raises(UsageError, match=r"another configuration .*learning_rate is 0.1, and 0.5 is due") as raised:
        train(other, 0, nothing, checkpoint=at(tmp_path, other))

    assert "\n" not in str(raised.value)
    assert at(tmp_path).path.read_bytes() == before


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "a byte too long": lambda data: data + b"\0",
    "a bit of a weight": lambda data: _with_flipped_bit(data, len(data) // 2),
    "a bit of the digest": lambda data: _with_flipped_bit(data, 40),
    "a line break less": lambda data: data.replace(b"\n", b"", 1),
}


def _with_flipped_bit(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_left(tmp_path: Path, damage: str) -> None:
    train(TOY.with_epochs(2), 0, nothing, checkpoint=at(tmp_path))
    path = at(tmp_path).path
    path.write_bytes(damaged := DAMAGES[damage](path.read_bytes()))

    said = r"is damaged \(its bytes are not those that were written\): delete it to begin anew"
    with pytest.raises(UsageError, match=rf"^the checkpoint .*toy\.checkpoint {said}$"):
        train(TOY, 0, nothing, checkpoint=at(tmp_path))
    assert path.read_bytes() == damaged


def test_each_bit_of_a_checkpoint_counts(tmp_path: Path) -> None:
    train(TOY.with_epochs(1), 0, nothing, checkpoint=at(tmp_path))
    path = at(tmp_path).path
    whole = path.read_bytes()
    for place in range(0, len(whole), 37):
        path.write_bytes(_with_flipped_bit(whole, place))
        with pytest.raises(UsageError):
            at(tmp_path).read()
    path.write_bytes(whole)

    assert at(tmp_path).read() is not None


@pytest.mark.parametrize("data", [b"", b"PK", b"a page of somebody's\n"])
def test_somebody_else_s_file_is_no_checkpoint_and_left(tmp_path: Path, data: bytes) -> None:
    at(tmp_path).path.write_bytes(data)

    with pytest.raises(UsageError, match=r"toy\.checkpoint is no checkpoint of attnsuite: move it away to begin anew$"):
        train(TOY, 0, nothing, checkpoint=at(tmp_path))
    assert at(tmp_path).path.read_bytes() == data


def test_a_folder_where_a_checkpoint_is_due_is_one_line(tmp_path: Path) -> None:
    at(tmp_path).path.mkdir()

    with pytest.raises(UsageError, match=r"^the checkpoint .*toy\.checkpoint cannot be read: Is a directory$"):
        train(TOY, 0, nothing, checkpoint=at(tmp_path))


def test_what_an_attention_raises_is_said_with_the_place_and_the_checkpoint_that_stays(tmp_path: Path) -> None:
    calls = iter(range(100))

    def failing(config, seed, attention):  # type: ignore[no-untyped-def]
        training = TOY.prepare(config, seed, attention)

        def loss(batch, random):  # type: ignore[no-untyped-def]
            if next(calls) == 7:
                raise UsageError("attention/odd raised in training: ValueError: no")
            return training.loss(batch, random)

        return replace(training, loss=loss)

    stays = r"the checkpoint of epoch 2 stays in .*toy\.checkpoint"
    with pytest.raises(UsageError, match=rf"raised in training: ValueError: no \(in epoch 3, batch 2; {stays}\)$"):
        train(replace(TOY, prepare=failing), 0, nothing, checkpoint=at(tmp_path))


def test_a_checkpoint_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    with pytest.raises(UsageError, match=r"^the checkpoint .* cannot be written: "):
        train(TOY, 0, nothing, checkpoint=at(tmp_path / "file"))


def test_what_a_process_was_writing_when_it_was_killed_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    left = [
        tmp_path / f".{ended.pid}.checkpoint",
        tmp_path / f".{os.getppid()}.checkpoint",
        tmp_path / ".mine.checkpoint",
    ]
    for file in left:
        file.write_bytes(b"half")
    train(TOY, 0, nothing, checkpoint=at(tmp_path))

    assert [file.exists() for file in left] == [False, True, True]


def test_nothing_else_is_left_beside_a_checkpoint(tmp_path: Path) -> None:
    train(TOY, 0, nothing, checkpoint=at(tmp_path))

    assert [path.name for path in tmp_path.iterdir()] == ["toy.checkpoint"]


def test_the_cache_has_a_folder_for_each_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path))
    one, other = (Checkpoint.within(None, "a/b", {"seed": seed}).path for seed in (0, 1))

    assert one.parent != other.parent
    assert {one.name, other.name} == {"a-b.checkpoint"}
    assert cache() in one.parents


def test_each_training_has_a_file_of_its_own_with_a_name_that_every_file_system_takes(tmp_path: Path) -> None:
    names = ["a/b", "a/b c", "a/b:c", "a/b-c", "a/é", "a/è", "a/" + 300 * "n", "a/" + 300 * "n" + "m"]
    files = [Checkpoint.within(tmp_path, name, {}).path.name for name in names]

    assert len(set(files)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.+-]{1,230}", file) for file in files)


def test_where_no_checkpoint_can_be_written_nothing_is_trained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    watched: list[int] = []

    with pytest.raises(UsageError, match=r"^the checkpoint .* cannot be written: "):
        train(TOY, 0, nothing, checkpoint=at(tmp_path / "file"), watch=lambda epoch, _: watched.append(epoch))
    assert not watched


@pytest.mark.parametrize("what", [[1], {"identity": {}}, None])
def test_what_this_version_does_not_write_is_no_checkpoint_of_it(tmp_path: Path, what: object) -> None:
    saved = io.BytesIO()
    torch.save(what, saved)
    data = saved.getvalue() if what is not None else b""
    at(tmp_path).path.write_bytes(_first_line(data) + data)

    with pytest.raises(UsageError, match=r"is no checkpoint of this version: move it away to begin anew$"):
        train(TOY, 0, nothing, checkpoint=at(tmp_path))


def test_scores_of_a_model_that_draws_are_the_same_behind_a_checkpoint(tmp_path: Path) -> None:
    def drawing(config, seed, attention):  # type: ignore[no-untyped-def]
        training = TOY.prepare(config, seed, attention)
        return replace(training, scores=lambda: {"drawn": float(torch.rand(()))})

    task = replace(TOY, prepare=drawing)
    once = train(task, 0, nothing, checkpoint=at(tmp_path)).scores

    assert train(task, 0, nothing, checkpoint=at(tmp_path)).scores == once
    assert train(task, 1, nothing).scores != once


def test_deterministic_puts_everything_back() -> None:
    threads = torch.get_num_threads()
    with deterministic():
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 1

    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == threads


def test_generators_of_two_purposes_or_seeds_differ() -> None:
    drawn = {float(torch.rand((), generator=generator(seed, purpose))) for seed in (0, 1) for purpose in ("a", "b")}

    assert len(drawn) == 4


def test_a_learning_rate_may_fall_to_nothing_after_the_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *given: Any, **named: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given, **named)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    task = replace(TOY, config={**TOY.config, "epochs": 4, "rate_falls": True})

    train(task, 0, nothing)

    assert rates == pytest.approx([0.1] * 3 + [0.075] * 3 + [0.05] * 3 + [0.025] * 3)


def test_a_training_whose_rate_falls_goes_on_where_it_was(tmp_path: Path) -> None:
    task = replace(TOY, config={**TOY.config, "rate_falls": True})

    def killed(epoch: int, epochs: int) -> None:
        if epoch == 3:
            raise Killed

    with pytest.raises(Killed):
        train(task, 0, nothing, checkpoint=at(tmp_path, task), watch=killed)

    again = train(task, 0, nothing, checkpoint=at(tmp_path, task))
    assert torch.equal(again.weights["slope"], train(task, 0, nothing).weights["slope"])
