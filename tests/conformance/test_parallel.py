"""`--jobs`: several processes find what one process finds, in the same order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec import structs

from attnsuite import registry
from attnsuite.cases.tensors import seed
from attnsuite.conformance.parallel import ParallelSession, jobs_of, session_of
from attnsuite.conformance.request import CheckRequest
from attnsuite.model import Outcome, UsageError

Write = Callable[[str, str], Path]

KERNELS = """
import os
import time

import torch

sdpa = torch.nn.functional.scaled_dot_product_attention


def unscaled_and_causal_from_the_end(query, key, value, is_causal=False):
    scores = query @ key.mT
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + scores.shape[-1] - scores.shape[-2])
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ value


def dies_on_seven_keys(query, key, value):
    if key.shape[-2] == 7 and query.dtype == torch.float32:
        os._exit(3)
    return sdpa(query, key, value)


def sleeps(query, key, value):
    time.sleep(60)


def takes_masks(query, key, value, attn_mask=None):
    return sdpa(query, key, value, attn_mask)
"""
DECLARED = """
import attnsuite
from torch.nn.functional import scaled_dot_product_attention as sdpa

@attnsuite.implementation(lacks={"rank3": "heads alone", "soul": "none"}, conventions={"causal": "upside_down"})
def kernel(query, key, value):
    return sdpa(query, key, value)
"""


def outcomes(
    targets: Sequence[str], jobs: int, *cases: str, earlier: Sequence[Outcome] = (), **request: object
) -> list[Outcome]:
    """The outcomes of a check in so many processes, without their times."""
    declarations = registry.find([str(target) for target in targets])
    asked = CheckRequest(cases, **request)  # type: ignore[arg-type]
    with session_of(asked, len(declarations), jobs) as session:
        found = [outcome for declaration in declarations for outcome in session.outcomes(declaration, earlier)]
    return [structs.replace(outcome, seconds=None) for outcome in found]


@pytest.fixture
def kernel(write: Write) -> Callable[[str], str]:
    file = write("kernels.py", KERNELS)
    return lambda name: f"{file}:{name}"


@pytest.mark.parametrize("jobs", [2, 3])
def test_several_implementations(jobs: int) -> None:
    asked = (
        ["attention/matmul", "attention/torch_sdpa.math", "attention/chunked"],
        "plain",
        "bad_input",
        "window/left_*",
    )
    one = outcomes(asked[0], 1, *asked[1:])

    assert outcomes(asked[0], jobs, *asked[1:]) == one
    assert any(outcome.known for outcome in one), "a known bug is among them"


@pytest.mark.slow
def test_a_mistake_has_the_same_names(kernel: Callable[[str], str]) -> None:
    cases = "plain", "causal/*more_keys", "causal/one_query", "lengths/causal*"
    asked = ([kernel("unscaled_and_causal_from_the_end")], *cases)
    one = outcomes(asked[0], 1, *asked[1:])

    assert outcomes(asked[0], 2, *asked[1:]) == one
    assert {("unscaled",), ("unscaled + aligns_causal_at_the_end",)} <= {outcome.diagnosis for outcome in one}


@pytest.mark.slow
def test_wrong_declarations(write: Write) -> None:
    file = write("declared.py", DECLARED)
    one = outcomes([str(file)], 1, "plain", "ranks/three")

    assert outcomes([str(file)], 2, "plain", "ranks/three") == one
    about = {outcome.case for outcome in one if outcome.dtype == "*"}
    assert about == {"declared/rank3", "declared/soul", "declared/causal"}


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [True, False])
def test_a_submission_that_ends_its_process_loses_no_test(
    kernel: Callable[[str], str], isolated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = outcomes([kernel("dies_on_seven_keys")], 1, "plain", "items")
    if not isolated:  # it runs as shipped implementations do, in the processes of the pool
        monkeypatch.setattr(registry.Declaration, "shipped", True)

    assert outcomes([kernel("dies_on_seven_keys")], 2, "plain", "items") == one
    assert {outcome.detail for outcome in one if outcome.status == "crashed"} == {"crashed: exit status 3"}


@pytest.mark.slow
def test_after_timeouts_the_others_are_skipped(kernel: Callable[[str], str]) -> None:
    targets, request = [kernel("sleeps"), kernel("takes_masks")], {"time_limit": 0.2, "dtypes": ("float32",)}
    one = outcomes(targets, 1, "plain", "keys", **request)

    assert outcomes(targets, 2, "plain", "keys", **request) == one
    assert sum("timeout: skipped" in outcome.detail for outcome in one) == len(one) / 2 - 4


def test_a_resumed_run_runs_what_is_missing(kernel: Callable[[str], str]) -> None:
    everything = outcomes([kernel("takes_masks")], 1, "plain", "bool_mask")

    assert outcomes([kernel("takes_masks")], 2, "plain", "bool_mask", earlier=everything[5:]) == everything[:5]
    assert outcomes([kernel("takes_masks")], 2, "plain", "bool_mask", earlier=everything) == []


@pytest.mark.slow
def test_all_processes_draw_the_numbers_of_the_seed(kernel: Callable[[str], str]) -> None:
    with seed(5):
        one = outcomes([kernel("takes_masks")], 1, "plain")
        two = outcomes([kernel("takes_masks")], 2, "plain")

    assert two == one
    assert one != outcomes([kernel("takes_masks")], 2, "plain")


def test_an_implementation_that_cannot_run_is_one_row(write: Write) -> None:
    broken = write("broken.py", "raise RuntimeError('not today')\n\ndef attention(query, key, value): ...")

    (outcome,) = outcomes([f"{broken}:attention"], 2, "plain")

    assert outcome.dtype == "*"
    assert "not today" in outcome.detail


def test_a_killed_process_is_replaced() -> None:
    one = outcomes(["attention/matmul"], 1, "plain", "items", "keys")
    (declaration,) = registry.find(["attention/matmul"])

    found: list[Outcome] = []
    with ParallelSession(CheckRequest(("plain", "items", "keys")), False, jobs=2) as session:
        for outcome in session.run(declaration):
            if len(found) == 3:
                os.kill(session.processes[1].process.pid or 0, signal.SIGKILL)
            found.append(structs.replace(outcome, seconds=None))
        begun = [process.process for process in session.processes]

    died = [outcome for outcome in found if outcome.status == "crashed"]
    assert [outcome.key for outcome in found] == [outcome.key for outcome in one]
    assert len(died) <= 1, "the test that it was running"
    assert all(outcome in one for outcome in found if outcome not in died)
    assert not any(process.is_alive() for process in begun), "none outlives the session"


FAILS = """
import attnsuite
from attnsuite.conformance.check import Check

Check.result = lambda *_: 1 / 0
attnsuite.check("attention/matmul", cases="plain", jobs=2)
"""
FORKS_WITH_JAX = """
import warnings

import jax

import attnsuite

if __name__ == "__main__":
    jax.numpy.ones(3).sum()
    with warnings.catch_warnings(record=True) as warned:
        print(len(attnsuite.check("attention/matmul", cases="plain", dtypes="float32", jobs=2)), len(warned))
"""
BEGINS = """
import sys

from attnsuite.worker import forkserver

start = forkserver.ForkServer.__init__


def told(*of):
    print("begun", "after" if "torch" in sys.modules else "before", file=sys.stderr, flush=True)
    start(*of)


forkserver.ForkServer.__init__ = told
from attnsuite.__main__ import main

main()
"""
"""The command line, which reports when it begins to import PyTorch for workers."""


def ran(program: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """How a program ends that has imported nothing else."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, folder / "program.py", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_an_error_of_the_suite_is_raised_by_the_parent(tmp_path: Path) -> None:
    done = ran(FAILS, tmp_path)

    assert done.returncode == 1
    assert "RuntimeError" in done.stderr
    assert "ZeroDivisionError: division by zero" in done.stderr


@pytest.mark.slow
def test_a_process_with_threads_of_jax_is_not_forked(tmp_path: Path) -> None:
    pytest.importorskip("jax")

    done = ran(FORKS_WITH_JAX, tmp_path)

    assert (done.stdout.split()[1:], done.stderr, done.returncode) == (["0"], "", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "jobs", "begun"),
    [("takes_masks", 1, "begun before\n"), ("takes_masks", 3, "begun before\n"), ("attention/matmul", 1, "")],
)
def test_pytorch_is_imported_for_workers_once_if_any_test_needs_one(
    kernel: Callable[[str], str], tmp_path: Path, target: str, jobs: int, begun: str
) -> None:
    target = target if "/" in target else kernel(target)

    done = ran(BEGINS, tmp_path, "check", target, "--case", "plain/small", "--jobs", str(jobs))

    assert (done.returncode, done.stderr) == (0, begun), done.stdout


@pytest.mark.parametrize(("jobs", "cases", "processes"), [(None, (), 2), (None, ("plain",), 1), (3, ("plain",), 3)])
def test_by_default_there_is_a_process_per_core_and_one_for_few_tests(
    jobs: int | None, cases: tuple[str, ...], processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})

    assert jobs_of(jobs, CheckRequest(cases), registry.find(["matmul"])) == processes


@pytest.mark.parametrize("jobs", [0, -1])
def test_a_number_of_processes_is_1_or_more(jobs: int) -> None:
    with pytest.raises(UsageError, match=f"--jobs is {jobs}; expected 1 to 256"):
        session_of(CheckRequest(), 1, jobs)
