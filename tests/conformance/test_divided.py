"""A check divided between processes finds what one process finds, in the same order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest
from msgspec.structs import replace

from attnsuite import registry
from attnsuite.cases.tensors import seed
from attnsuite.conformance import divided
from attnsuite.conformance.asker import Process
from attnsuite.conformance.diagnosis import side_by_side
from attnsuite.conformance.divided import DividedSession, jobs_of, session_of
from attnsuite.conformance.patience import HUNG_IN_A_ROW
from attnsuite.conformance.session import CheckRequest, Session
from attnsuite.model import Outcome, UsageError
from attnsuite.worker import Hung, Worker

Write = Callable[[str, str], Path]

KERNELS = """
import os
import time

import torch

sdpa = torch.nn.functional.scaled_dot_product_attention


def unscaled(query, key, value):
    return (query @ key.mT).softmax(-1) @ value


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
"""The command line, which says when it begins to import PyTorch for workers."""


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 3])
def test_pytorch_is_imported_for_workers_once_and_before_it_is_imported_here(write: Write, jobs: int) -> None:
    """Several processes ask one server."""
    words = ["check", f"{write('kernels.py', KERNELS)}:takes_masks", "--case", "plain/small", "--jobs", str(jobs)]

    done = subprocess.run([sys.executable, "-c", BEGINS, *words], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "begun before\n"), done.stdout


def test_nobody_imports_pytorch_for_workers_that_no_question_needs() -> None:
    words = ["check", "attention/matmul", "--case", "plain/small"]

    done = subprocess.run([sys.executable, "-c", BEGINS, *words], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def outcomes(
    targets: Sequence[str], jobs: int, *cases: str, earlier: Sequence[Outcome] = (), **request: object
) -> list[Outcome]:
    """The outcomes of a check in so many processes, without their times."""
    declarations = registry.find([str(target) for target in targets])
    asked = CheckRequest(cases, **request)  # type: ignore[arg-type]
    with session_of(asked, len(declarations), jobs) as asking:
        found = [outcome for each in declarations for outcome in asking.run(each, earlier)]
    return [replace(outcome, seconds=None) for outcome in found]


@pytest.fixture
def kernel(write: Write) -> Callable[[str], str]:
    file = write("kernels.py", KERNELS)
    return lambda name: f"{file}:{name}"


@pytest.fixture
def answers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Submissions are asked as those that ship are: in the process that asks."""
    monkeypatch.setattr(registry.Declaration, "shipped", True)


def test_several_implementations_in_two_and_three_processes() -> None:
    asked = ["attention/matmul", "attention/torch_sdpa.math", "attention/chunked"]
    one = outcomes(asked, 1, "plain", "bad_input", "window/left_*")

    assert outcomes(asked, 2, "plain", "bad_input", "window/left_*") == one
    assert outcomes(asked, 3, "plain", "bad_input", "window/left_*") == one
    assert any(outcome.known for outcome in one), "a finding is among them"


def test_a_mistake_has_the_same_name_in_every_outcome(kernel: Callable[[str], str]) -> None:
    one = outcomes([kernel("unscaled")], 1, "plain")

    assert outcomes([kernel("unscaled")], 2, "plain") == one
    assert {outcome.diagnosis for outcome in one if outcome.status == "wrong"} == {("unscaled",)}


@pytest.mark.slow
def test_copies_of_the_parent_find_the_names_that_it_finds_alone(
    kernel: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, begin = Counter[int](), side_by_side._copy

    def counted(work: Any, share: Any) -> Any:
        copies[len(share)] += 1
        return begin(work, share)

    monkeypatch.setattr(side_by_side, "_copy", counted)
    asked = ([kernel("unscaled_and_causal_from_the_end")], "plain", "causal/*more_keys")
    one = outcomes(asked[0], 1, *asked[1:])
    assert not copies

    assert outcomes(asked[0], 2, *asked[1:]) == one
    assert copies
    assert ("unscaled + aligns_causal_at_the_end",) in {outcome.diagnosis for outcome in one}


@pytest.mark.slow
def test_declarations_that_are_not_so(write: Write) -> None:
    file = write(
        "declared.py",
        """
        import attnsuite
        from torch.nn.functional import scaled_dot_product_attention as sdpa

        @attnsuite.implementation(lacks={"rank3": "heads alone", "soul": "none"}, conventions={"causal": "upside_down"})
        def kernel(query, key, value):
            return sdpa(query, key, value)
        """,
    )
    one = outcomes([str(file)], 1, "plain", "ranks/three")

    assert outcomes([str(file)], 2, "plain", "ranks/three") == one
    assert {outcome.case for outcome in one if outcome.dtype == "*"} == {
        "declared/rank3",
        "declared/soul",
        "declared/causal",
    }


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [True, False])
def test_a_submission_that_ends_its_process_is_named_and_no_question_is_lost(
    kernel: Callable[[str], str], isolated: bool, request: pytest.FixtureRequest
) -> None:
    one = outcomes([kernel("dies_on_seven_keys")], 1, "plain", "items")
    if not isolated:
        request.getfixturevalue("answers_here")  # it takes the process along that asks

    assert outcomes([kernel("dies_on_seven_keys")], 2, "plain", "items") == one
    assert {outcome.detail for outcome in one if outcome.status == "died"} == {"died: exit status 3"}


@pytest.mark.slow
def test_after_answers_that_hang_the_others_are_given_up(kernel: Callable[[str], str]) -> None:
    request = {"time_limit": 0.2, "dtypes": ("float32",)}
    one = outcomes([kernel("sleeps"), kernel("unscaled")], 1, "plain", **request)

    assert outcomes([kernel("sleeps"), kernel("unscaled")], 2, "plain", **request) == one
    assert sum("hung: not asked" in outcome.detail for outcome in one) == len(one) / 2 - 4


@pytest.mark.slow
def test_what_is_given_up_is_not_asked_by_any_process(
    kernel: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process has been given a hundred questions ahead by then."""
    found: list[int] = []
    has_found = Process.has_found
    monkeypatch.setattr(Process, "has_found", lambda process, place: (found.append(place), has_found(process, place)))

    given_up = outcomes([kernel("sleeps")], 2, "keys", "queries", "both", time_limit=0.2)

    assert {outcome.status for outcome in given_up} == {"hung"}
    assert len(found) < 40, "four, and what the other process has asked meanwhile"


def test_nobody_who_hangs_is_asked_for_an_explanation(
    kernel: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    ask = Worker.ask
    monkeypatch.setattr(Worker, "ask", lambda worker, *of: (asked.append(of), ask(worker, *of))[1])
    session = Session(CheckRequest(("plain", "bad_input", "causal"), ("float32",), time_limit=0.2), explains=True)
    (declaration,) = registry.find([kernel("sleeps")])

    given_up = list(session.run(declaration))

    assert len(asked) == HUNG_IN_A_ROW < len(given_up)
    assert declaration.full_name in session.explanations


def test_one_that_hangs_while_it_is_explained_is_not_compared_with_all_that_ship(
    kernel: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hung: list[object] = []
    ask = Worker.ask

    def answer(worker: Worker, *of: Any) -> object:
        if len(outcomes) < session.count(declaration):
            return ask(worker, *of)
        hung.append(of)
        return Hung(60.0)

    monkeypatch.setattr(Worker, "ask", answer)
    session = Session(
        CheckRequest(("plain", "bad_input/more_keys_than_values"), ("float32",), strict=True), explains=True
    )
    (declaration,) = registry.find([kernel("takes_masks")])
    outcomes: list[Outcome] = []

    for outcome in session.run(declaration):
        outcomes.append(outcome)

    assert any(outcome.fails for outcome in outcomes)
    assert 1 <= len(hung) <= 3, "to see operators, to compare, and to make an input smaller"


def test_a_resumed_run_asks_what_is_missing(kernel: Callable[[str], str]) -> None:
    everything = outcomes([kernel("takes_masks")], 1, "plain", "bool_mask")

    assert outcomes([kernel("takes_masks")], 2, "plain", "bool_mask", earlier=everything[5:]) == everything[:5]
    assert outcomes([kernel("takes_masks")], 2, "plain", "bool_mask", earlier=everything) == []


@pytest.mark.slow
def test_other_numbers_are_drawn_in_all_processes(kernel: Callable[[str], str]) -> None:
    with seed(5):
        one = outcomes([kernel("takes_masks")], 1, "plain")
        two = outcomes([kernel("takes_masks")], 2, "plain")

    assert two == one
    assert one != outcomes([kernel("takes_masks")], 2, "plain")


def test_what_cannot_be_asked_is_said_once(write: Write) -> None:
    broken = write("broken.py", "raise RuntimeError('not today')\n\ndef attention(query, key, value): ...")

    (found,) = outcomes([f"{broken}:attention"], 2, "plain")

    assert found.dtype == "*"
    assert "not today" in found.detail


def test_a_request_that_cannot_be_carried_out_is_the_parent_s_to_say(write: Write) -> None:
    file = write("kernels.py", "import torch as attention")

    with pytest.raises(UsageError, match="cannot be called"):
        outcomes([f"{file}:attention"], 2, "plain")


def test_a_process_that_is_killed_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    one = outcomes(["attention/matmul"], 1, "plain")
    (declaration,) = registry.find(["attention/matmul"])

    with DividedSession(CheckRequest(("plain",)), False, jobs=2) as asking:
        found = []
        for outcome in asking.run(declaration):
            if len(found) == 3:
                os.kill(asking.processes[1].process.pid or 0, signal.SIGKILL)
            found.append(replace(outcome, seconds=None))

    died = [outcome for outcome in found if outcome.status == "died"]
    assert [(outcome.case, outcome.dtype) for outcome in found] == [(outcome.case, outcome.dtype) for outcome in one]
    assert len(died) <= 1, "the question that it was asking"
    assert all(outcome in one for outcome in found if outcome not in died)


def test_a_process_that_ends_before_it_can_ask_leaves_its_questions_to_who_had_none_left() -> None:
    one = outcomes(["attention/matmul"], 1, "plain")
    (declaration,) = registry.find(["attention/matmul"])

    with DividedSession(CheckRequest(("plain",)), False, jobs=2) as asking:
        slow = asking.process(0) and asking.process(1)
        os.kill(slow.process.pid or 0, signal.SIGSTOP)
        ender = Thread(target=end_when_alone, args=(asking.processes[0], slow), daemon=True)
        ender.start()
        found = [replace(outcome, seconds=None) for outcome in asking.run(declaration)]
        ender.join()

    assert found == one


def end_when_alone(other: Process, slow: Process) -> None:
    """End a process that was given questions, once the other one has no more."""
    while not slow.given or other.given:
        sleep(0.01)
    os.kill(slow.process.pid or 0, signal.SIGKILL)


FAILS = """
from attnsuite.cli.check import check
from attnsuite.conformance import session

session.Check.answered = lambda *_: 1 / 0
check("attention/matmul", cases="plain", jobs=2)
"""
FORKS_WITH_JAX = """
import warnings

import jax

from attnsuite.cli.check import check

if __name__ == "__main__":
    jax.numpy.ones(3).sum()
    with warnings.catch_warnings(record=True) as warned:
        print(len(check("attention/matmul", cases="plain", dtypes="float32", jobs=2)), len(warned))
"""


def ran(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What an interpreter that has imported nothing else says to it."""
    (folder / "program.py").write_text(program)
    return subprocess.run([sys.executable, folder / "program.py"], capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_an_error_of_the_suite_is_raised_by_the_parent(tmp_path: Path) -> None:
    found = ran(FAILS, tmp_path)

    assert found.returncode == 1
    assert "RuntimeError" in found.stderr
    assert "ZeroDivisionError: division by zero" in found.stderr


def test_a_process_that_has_threads_of_jax_is_not_forked(tmp_path: Path) -> None:
    pytest.importorskip("jax")

    found = ran(FORKS_WITH_JAX, tmp_path)

    assert (found.stdout.split()[1:], found.stderr, found.returncode) == (["0"], "", 0)


def test_nothing_is_left_behind() -> None:
    (declaration,) = registry.find(["attention/matmul"])
    with DividedSession(CheckRequest(("plain",)), False, jobs=2) as asking:
        next(iter(asking.run(declaration)))
        begun = [each.process for each in asking.processes]

    assert [process.is_alive() for process in begun] == [False, False]


def test_questions_of_one_case_stay_together() -> None:
    asked = CheckRequest(("plain", "bad_input")).asked(divided.contract_named("attention"))
    division = divided.Division(DividedSession(CheckRequest()), registry.find(["attention/matmul"])[0], asked)

    batches = list(division._batches(range(len(asked))))

    assert [place for batch in batches for place in batch] == list(range(len(asked)))
    cases = [{asked[place][0].name for place in batch} for batch in batches]
    assert sum(map(len, cases)) == len(set().union(*cases)), "no case is in two batches"
    assert all(len({asked[place][0].in_worker for place in batch}) == 1 for batch in batches)


@pytest.mark.parametrize(("targets", "cases", "processes"), [(["matmul"], (), 2), (["matmul"], ("plain",), 1)])
def test_by_default_there_is_a_process_per_core_and_one_for_few_tests(
    targets: list[str], cases: tuple[str, ...], processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})

    assert jobs_of(None, CheckRequest(cases), registry.find(targets)) == processes


def test_a_number_of_processes_is_kept_for_few_tests() -> None:
    assert jobs_of(3, CheckRequest(("plain",)), registry.find(["matmul"])) == 3


@pytest.mark.parametrize("jobs", [0, -1])
def test_a_number_of_processes_is_1_or_more(jobs: int) -> None:
    with pytest.raises(UsageError, match=f"--jobs is a number of processes, 1 or more, not {jobs}"):
        session_of(CheckRequest(), 1, jobs)
