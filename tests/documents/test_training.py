"""Training: one seed gives one curve, a kill costs one epoch, faults end it in a line, copies are independent."""

from __future__ import annotations

import io
import math
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from toys import SLOPE, TOY

import attnsuite
from attnsuite.documents.learning.engine import (
    Checkpoint,
    Finished,
    Task,
    Watch,
    deterministic,
    first_line,
    generator,
    train,
)
from attnsuite.documents.learning.processes import Work, in_copies
from attnsuite.model import UsageError
from attnsuite.worker.copies import compute_gradients

TESTS = Path(__file__).parents[1]
HOME = Path(attnsuite.__file__).parent.parent


class Killed(Exception):
    """Stands for a process that ends."""


def nothing(*_: object, **__: object) -> torch.Tensor:
    raise AssertionError


def at(folder: Path, task: Task = TOY, seed: int = 0) -> Checkpoint:
    return Checkpoint.within(folder, "toy", {"seed": seed, "config": dict(task.config)})


def trained(folder: Path | None = None, task: Task = TOY, **options: Any) -> Finished:
    return train(task, 0, nothing, checkpoint=at(folder, TOY) if folder else None, **options)


def with_loss(change: Callable[..., Any], task: Task = TOY) -> Task:
    """The task with another loss, of the original loss's value and the weights."""

    def prepare(config: Any, seed: int, attention: Any) -> Any:
        training = TOY.prepare(config, seed, attention)
        (weight,) = training.weights.values()
        return replace(training, loss=lambda batch, random: change(training.loss(batch, random), weight))

    return replace(task, prepare=prepare)


def failing_at(call: int, error: Exception) -> Task:
    calls = iter(range(100))

    def loss(value: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        if next(calls) == call:
            raise error
        return value

    return with_loss(loss)


# One seed, one curve


def test_a_seed_gives_the_same_bits_whatever_torch_s_own_generator_was() -> None:
    torch.manual_seed(1)
    first = train(TOY, 3, nothing)
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(3)), "torch's own generator comes back"

    again, other = train(TOY, 3, nothing), train(TOY, 4, nothing)

    assert first.curve == again.curve != other.curve
    assert torch.equal(first.weights["slope"], again.weights["slope"])


def test_it_learns_and_is_compared_with_a_baseline() -> None:
    found = trained(task=TOY.changed(epochs=60, dropout=0.0))

    assert len(found.curve) == 60
    assert found.curve[-1] < found.curve[0] / 4
    assert found.scores["error"] < 0.2
    assert found.baselines == {"zeros": pytest.approx(float(SLOPE.square().mean()))}


def test_gradients_are_clipped_together() -> None:
    def moved(clip: float | None) -> torch.Tensor:
        task = TOY.changed(epochs=1, optimiser="sgd", learning_rate=0.001, clip=clip, dropout=0.0)
        return trained(task=task).weights["slope"] - torch.randn(4, generator=generator(0, "weights"))

    most = 3 * 0.001 * 0.5  # three batches, each at most as far as the learning rate times the norm
    assert 0.5 * most < moved(0.5).norm() <= most * (1 + 1e-4)
    assert moved(None).norm() > 2 * moved(0.5).norm()


def test_a_learning_rate_may_fall_to_nothing_after_the_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    rates, step = list[float](), torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *arguments: Any, **options: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)

    trained(task=TOY.changed(epochs=4, rate_falls=True))

    assert rates == pytest.approx([0.1] * 3 + [0.075] * 3 + [0.05] * 3 + [0.025] * 3)


def test_deterministic_restores_everything() -> None:
    threads = torch.get_num_threads()
    with deterministic():
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 1

    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == threads


def test_generators_of_two_purposes_or_seeds_differ() -> None:
    drawn = {float(torch.rand((), generator=generator(seed, purpose))) for seed in (0, 1) for purpose in ("a", "b")}

    assert len(drawn) == 4


IMPORTED_AHEAD = """
import sys
from pathlib import Path
from attnsuite.documents.learning import tasks
from attnsuite.documents.learning.engine import import_ahead
from attnsuite.documents.learning.tasks import Job
from attnsuite.registry import find

(plug,) = find(["attention/matmul"])
jobs = [Job(task.changed(epochs=1), 0, None if task.own else plug) for task in tasks.of_table(sys.argv[1])]
import_ahead(job.task for job in jobs)
before = set(sys.modules)
for job in jobs:
    job.run(job.backend().attention, Path(sys.argv[2]))
libraries = ("torch", "sklearn", "scipy", "pandas")
print(sum(name.startswith(libraries) for name in set(sys.modules) - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["digits", "wrong-gradients/right"])
def test_a_training_imports_next_to_nothing_that_was_not_imported_for_all(task: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", IMPORTED_AHEAD, task, str(tmp_path)]

    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(HOME)}
    )

    assert done.stderr == ""
    assert int(done.stdout) < 20, "PyTorch's compiler is 800 modules, scikit-learn with what it needs 500"


# Checkpoints


@pytest.mark.parametrize("epoch", [1, 4, 6])
@pytest.mark.parametrize("config", [{}, {"rate_falls": True}], ids=["constant rate", "falling rate"])
def test_ended_after_an_epoch_and_started_again_it_has_the_same_bits(tmp_path: Path, epoch: int, config: Any) -> None:
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


def test_ended_within_an_epoch_it_begins_that_epoch_again(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        trained(tmp_path, failing_at(7, Killed()))

    assert trained(tmp_path).curve == trained().curve


@pytest.mark.slow
def test_killed_by_the_system_it_goes_on_to_the_same_bits(tmp_path: Path) -> None:
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


def test_a_finished_checkpoint_is_not_trained_again_and_is_alone_in_its_folder(tmp_path: Path) -> None:
    first, before = trained(tmp_path), at(tmp_path).path.read_bytes()
    again = trained(tmp_path)

    assert (again.curve, again.scores) == (first.curve, first.scores)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_scores_that_draw_are_the_same_behind_a_checkpoint(tmp_path: Path) -> None:
    def drawing(config: Any, seed: int, attention: Any) -> Any:
        return replace(TOY.prepare(config, seed, attention), scores=lambda: {"drawn": float(torch.rand(()))})

    task = replace(TOY, prepare=drawing)

    assert trained(tmp_path, task).scores == trained(tmp_path, task).scores != train(task, 1, nothing).scores


def test_a_checkpoint_of_another_configuration_is_refused_and_left(tmp_path: Path) -> None:
    trained(tmp_path)
    before, other = at(tmp_path).path.read_bytes(), TOY.changed(learning_rate=0.5)

    with pytest.raises(UsageError, match=r"another configuration \(config.learning_rate is 0.1, expected 0.5\)"):
        train(other, 0, nothing, checkpoint=at(tmp_path, other))

    assert at(tmp_path).path.read_bytes() == before


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def saved(what: object) -> bytes:
    file = io.BytesIO()
    torch.save(what, file)
    return first_line(file.getvalue()) + file.getvalue()


DAMAGED = r"the checkpoint .*toy\.checkpoint is damaged \(its bytes are not those that were written\): delete it"
FOREIGN = r"toy\.checkpoint is no checkpoint of attnsuite: move it away to begin anew$"
OTHER_VERSION = r"toy\.checkpoint is no checkpoint of this version: move it away to begin anew$"
DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "half": (lambda data: data[: len(data) // 2], DAMAGED),
    "without its last byte": (lambda data: data[:-1], DAMAGED),
    "a byte too long": (lambda data: data + b"\0", DAMAGED),
    "a bit of a weight": (lambda data: flipped(data, len(data) // 2), DAMAGED),
    "a bit of the digest": (lambda data: flipped(data, 40), DAMAGED),
    "a line break less": (lambda data: data.replace(b"\n", b"", 1), DAMAGED),
    "empty": (lambda data: b"", FOREIGN),
    "another program's": (lambda data: b"a page\n", FOREIGN),
    "another object": (lambda data: saved([1]), OTHER_VERSION),
    "without a state": (lambda data: saved({"identity": {}}), OTHER_VERSION),
    "not torch's": (lambda data: first_line(b"") + b"", OTHER_VERSION),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_checkpoint_is_named_and_left(tmp_path: Path, damage: str) -> None:
    trained(tmp_path)
    change, message = DAMAGES[damage]
    at(tmp_path).path.write_bytes(damaged := change(at(tmp_path).path.read_bytes()))

    with pytest.raises(UsageError, match=message):
        trained(tmp_path)

    assert at(tmp_path).path.read_bytes() == damaged


def test_where_no_checkpoint_can_be_read_or_written_nothing_is_trained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    at(tmp_path).path.mkdir()

    for folder, message in ((tmp_path / "file", "cannot be written: "), (tmp_path, "cannot be read: Is a directory$")):
        with pytest.raises(UsageError, match=rf"^the checkpoint .* {message}"):
            trained(folder, watch=nothing)


def test_unfinished_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    left = [tmp_path / f".{name}.checkpoint" for name in (ended.pid, os.getppid(), "mine")]
    for file in left:
        file.write_bytes(b"half")
    trained(tmp_path)

    assert [file.exists() for file in left] == [False, True, True]


def test_each_training_has_a_file_of_its_own_with_a_valid_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path))
    one, other = (Checkpoint.within(None, "a/b", {"seed": seed}).path for seed in (0, 1))
    names = ["a/b", "a/b c", "a/b:c", "a/b-c", "a/é", "a/è", "a/" + 300 * "n", "a/" + 300 * "n" + "m"]
    files = [Checkpoint.within(tmp_path, name, {}).path.name for name in names]

    assert len(set(files)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.+-]{1,230}", file) for file in files)
    assert one.parent != other.parent, "the cache has a folder for each identity"
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
            r"^toy: the backward pass raised NotImplementedError: odd widths \(",
        ),
    ],
    ids=["loss", "gradient", "backward pass"],
)
def test_a_loss_or_gradient_that_is_not_finite_ends_it_and_the_checkpoint_stays(
    tmp_path: Path, change: Callable[..., Any], message: str
) -> None:
    trained(tmp_path, TOY.changed(epochs=2))
    before = at(tmp_path).path.read_bytes()

    with pytest.raises(UsageError, match=message + r".*; the checkpoint of epoch 2 stays in .*toy\.checkpoint"):
        trained(tmp_path, with_loss(change))

    assert at(tmp_path).path.read_bytes() == before


def test_the_message_of_an_attention_has_the_epoch_and_the_batch(tmp_path: Path) -> None:
    error = UsageError("attention/odd raised in training: ValueError: no")

    with pytest.raises(
        UsageError, match=r"raised in training: ValueError: no \(in epoch 3, batch 2; the checkpoint of"
    ):
        trained(tmp_path, failing_at(7, error))


# Copies of this process

LONGEST = 60.0
"""Seconds for which a test waits for another process."""
copies = pytest.mark.usefixtures("copies_possible")


@pytest.fixture
def copies_possible() -> None:
    """Asked when the test runs: another test may have imported what forbids copies since this file was collected."""
    if not compute_gradients():
        pytest.skip("no copy of this process may be made")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def wait_for(file: Path) -> None:
    end = time.monotonic() + LONGEST
    while not file.exists():
        assert time.monotonic() < end, f"{file} does not appear"
        time.sleep(0.01)


def works(*functions: Callable[[Watch], object]) -> list[Work[object]]:
    return [Work(function, f"work {place}") for place, function in enumerate(functions)]


def notes_its_id_and_waits(folder: Path, watch: Watch) -> None:
    (folder / "new").write_text(str(os.getpid()), encoding="utf-8")
    (folder / "new").rename(folder / "waits")
    time.sleep(10 * LONGEST)


def ended(folder: Path) -> bool:
    return not psutil.pid_exists(int((folder / "waits").read_text(encoding="utf-8")))


def refuses(watch: Watch) -> None:
    raise UsageError("it is wrong")


@copies
def test_two_run_at_once_and_results_come_in_order_each_with_its_own_epochs(tmp_path: Path) -> None:
    seen: dict[str, list[tuple[int, int]]] = {"a": [], "bb": []}

    def meets(own: str, other: str, watch: Watch) -> str:
        watch(1, len(own))
        (tmp_path / own).touch()
        wait_for(tmp_path / other)
        time.sleep(0.2 * (own == "a"))  # the second ends first
        return own

    pairs = (("a", "bb"), ("bb", "a"))
    each = [Work(partial(meets, *pair), "", lambda own=pair[0]: lambda *at: seen[own].append(at)) for pair in pairs]  # type: ignore[misc]

    assert list(in_copies(each, at_once=2)) == ["a", "bb"]
    assert seen == {"a": [(1, 1)], "bb": [(1, 2)]}


@copies
def test_no_more_run_at_once(tmp_path: Path) -> None:
    def begun(number: int, watch: Watch) -> bool:
        (tmp_path / str(number)).touch()
        time.sleep(0.2)
        return (tmp_path / str(number + 2)).exists()

    assert list(in_copies(works(*(partial(begun, number) for number in range(4))), at_once=2)) == [False] * 4


@copies
def test_a_refusal_comes_after_the_results_before_it_and_later_works_never_begin(tmp_path: Path) -> None:
    def slow(watch: Watch) -> str:
        time.sleep(0.5)
        return "a"

    results = in_copies(works(slow, refuses, lambda watch: (tmp_path / "begun").touch()), at_once=2)

    assert next(results) == "a"
    with pytest.raises(UsageError, match=r"^it is wrong$"):
        next(results)
    assert not (tmp_path / "begun").exists()


@copies
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("end", ["refused", "interrupted", "closed"])
def test_a_refusal_ctrl_c_and_a_reader_that_stops_end_the_other_works(tmp_path: Path, end: str) -> None:
    def first(watch: Watch) -> str:
        wait_for(tmp_path / "waits")
        if end == "refused":
            refuses(watch)
        if end == "interrupted":
            signal.raise_signal(signal.SIGINT)
        return "a"

    results = in_copies(works(first, partial(notes_its_id_and_waits, tmp_path)), at_once=2)
    if end == "closed":
        assert next(results) == "a"
        results.close()
    else:
        with pytest.raises(UsageError if end == "refused" else KeyboardInterrupt):
            next(results)

    assert ended(tmp_path)


def exits(watch: Watch) -> None:
    os._exit(3)


def exits_with_a_child(watch: Watch) -> None:
    if os.fork() == 0:
        time.sleep(LONGEST / 2)
    os._exit(3)


def pretends_ctrl_c(watch: Watch) -> None:
    raise KeyboardInterrupt


@copies
@pytest.mark.parametrize(
    ("work", "message"),
    [
        (exits, r"^the process that ran work 0 ended without a result \(exit status 3\)$"),
        (exits_with_a_child, r"^the process that ran work 0 ended without a result \(exit status 3\)$"),
        (pretends_ctrl_c, r"^work 0 raised KeyboardInterrupt$"),
    ],
)
def test_a_work_that_ends_its_process_or_pretends_ctrl_c_is_one_line(work: Any, message: str) -> None:
    began = time.monotonic()

    with pytest.raises(UsageError, match=message):
        list(in_copies(works(work)))
    assert time.monotonic() - began < LONGEST / 4


@copies
@pytest.mark.parametrize(
    "message", [("result", None), ("epoch", 5), ("epoch", (1, "x")), ("refused", 5), ("odd", 1), 7]
)
def test_a_forged_message_is_not_believed(message: object) -> None:
    data = pickle.dumps(message)

    def writes(watch: Watch) -> None:
        for file in Path("/proc/self/fd").iterdir():
            if int(file.name) > 2 and file.exists() and "pipe" in str(file.readlink()):
                os.write(int(file.name), struct.pack("!i", len(data)) + data)
        os._exit(0)

    with pytest.raises(UsageError, match=r"^the process that ran attention ended without a result"):
        list(in_copies([Work(writes, "attention", result=int)]))


@copies
def test_processes_that_a_work_has_started_end_with_it() -> None:
    def leaves_one(watch: Watch) -> int:
        child = subprocess.Popen(["sh", "-c", f"sleep {10 * LONGEST:g} & echo $!"], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        return int(child.stdout.readline())  # a grandchild, whose parent has ended

    (left,) = in_copies(works(leaves_one))

    assert not psutil.pid_exists(left)  # type: ignore[arg-type]


@copies
def test_a_work_has_no_open_file_of_this_process_and_no_pipe_of_another_work(tmp_path: Path) -> None:
    with (tmp_path / "mine").open("w") as file:

        def writes(watch: Watch) -> int:
            os.write(file.fileno(), b"here I am")
            files = [each for each in Path("/proc/self/fd").iterdir() if each.exists()]
            return len([each for each in files if "pipe" in str(each.readlink())])

        pipes = list(in_copies(works(writes, writes), at_once=2))

    assert (tmp_path / "mine").read_text(encoding="utf-8") == ""
    assert pipes[1] <= 1 + 3, "its own, and those of standard input, output and error"  # type: ignore[operator]
