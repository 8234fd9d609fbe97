"""Failures of a submission that are a library's: found by equal answers, and by nothing less."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from attnsuite.cases import Reply
from attnsuite.conformance.forwarding import equal_replies, equal_tensors
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.model import Explanation, Outcome
from attnsuite.registry import find

FORWARDS = Path(__file__).parents[1] / "submissions" / "forwards.py"
CASES = ("plain", "bool_mask/rank_1", "scale", "bad_input/more_values_than_keys")
TORCH = version("torch")
"""As it is installed: a build for CUDA calls itself 2.13.0+cu130, and is installed as 2.13.0."""
Pytest = Callable[..., object]


def explained(function: str, *cases: str) -> tuple[list[Outcome], Explanation]:
    """What came of the cases in float32, and what is said of it."""
    (declaration,) = find([f"{FORWARDS}:{function}"])
    session = Session(CheckRequest(cases or CASES, ("float32",)), several=False, explains=True)
    outcomes = session.outcomes(declaration)
    return outcomes, session.explanations[declaration.full_name]


@pytest.mark.slow
def test_all_failures_of_a_forwarder_are_those_of_the_implementation_that_it_forwards_to() -> None:
    outcomes, said = explained("attention")

    failing = {(outcome.case, outcome.dtype) for outcome in outcomes if outcome.fails}
    assert said.borrowed is not None
    assert said.borrowed.implementation == "attention/torch_sdpa.automatic"
    assert said.borrowed.versions == f"torch {TORCH}"
    assert said.borrowed.questions == failing
    assert said.borrowed.failures == len(failing)
    assert {each.id: each.failures for each in said.borrowed.findings} == {
        "sdpa-cpu-causal-scale-not-positive": 2,
        "sdpa-cpu-mask-of-rank-1": 1,
        "sdpa-cpu-lengths-differ": 1,
    }
    assert said.reproductions == (), "the findings have theirs"
    assert said.where == ()
    assert len(failing) == 4, "they stay failures"


def test_the_paragraph_names_findings_library_version_link_and_the_lines_that_accept_them() -> None:
    _, said = explained("attention", "bad_input/more_values_than_keys")

    first, finding, home, *_, line = [line for line in said.lines if not line.startswith(("walls: ", "operators: "))]
    assert first.startswith(f"1 of its 1 failures are those of attention/torch_sdpa.automatic (torch {TORCH})")
    assert finding.startswith(
        "  1 × sdpa-cpu-lengths-differ: PyTorch's flash kernel for CPUs accepts keys and values of"
    )
    assert "https://github.com/pytorch/pytorch/" in finding
    assert home.split(" has each")[0].endswith("suite/contracts/attention/findings.toml")
    assert line == "  finding/sdpa-cpu-lengths-differ: as in attention/torch_sdpa.automatic"


@pytest.mark.slow
def test_a_forwarder_that_lays_tensors_out_otherwise_is_found_too() -> None:
    _, said = explained("transposed")

    assert said.borrowed is not None
    assert {each.id for each in said.borrowed.findings} >= {"sdpa-cpu-mask-of-rank-1"}


@pytest.mark.slow
def test_a_failure_of_its_own_stays_its_own_and_is_explained() -> None:
    outcomes, said = explained("doubled")

    own = {outcome.case for outcome in outcomes if outcome.fails} - {case for case, _ in said.borrowed.questions}
    assert own == {"scale/half"}
    assert said.borrowed.failures == len(said.borrowed.questions) + 1
    assert {each.case for each in said.reproductions} == {"scale/half"}


def test_the_same_mistake_in_a_computation_of_its_own_is_not_blamed_on_a_library() -> None:
    outcomes, said = explained("of_its_own")

    assert {outcome.case for outcome in outcomes if outcome.fails} >= {"scale/negative_causal", "scale/zero_causal"}
    assert said.borrowed is None
    assert said.reproductions


@pytest.mark.slow
def test_two_processes_say_the_same(status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]) -> None:
    cases = [word for case in CASES for word in ("--case", case)]
    asked = ("check", f"{FORWARDS}:attention", *cases, "--dtype", "float32")

    assert status_of(*asked) == 1
    one = capsys.readouterr().out
    assert status_of(*asked, "--jobs", "2") == 1

    assert capsys.readouterr().out == one
    assert "4 of its 4 failures are those of attention/torch_sdpa.automatic" in one


@pytest.mark.slow
def test_a_test_run_says_of_each_failure_whose_it_is(tmp_path: Path, run_pytest: Pytest) -> None:
    (tmp_path / "forwards.py").write_text(FORWARDS.read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")

    done = run_pytest(
        "--attention", "forwards.py:doubled", "--attention-case", "scale/half",
        "--attention-case", "bool_mask/rank_1", "--attention-dtype", "float32",
    )  # fmt: skip

    said = f"the same as attention/torch_sdpa.automatic (torch {TORCH}), to which it seems to forward"
    assert done.returncode == 1
    assert done.stdout.count(said) == 1
    assert f"{said}, bit for bit: the recorded finding sdpa-cpu-mask-of-rank-1: PyTorch's flash" in done.stdout
    assert sys.exc_info() == (None, None, None)


# What is alike

ONE = torch.tensor([1.0, torch.nan, -0.5])


@pytest.mark.parametrize(
    ("other", "due"),
    [
        (Reply(ONE.clone()), True),
        (Reply(torch.tensor([1.0, torch.nan, -0.5000001])), False),
        (Reply(torch.tensor([1.0, 2.0, -0.5])), False),
        (Reply(ONE.double()), False),
        (Reply(ONE[None]), False),
        (Reply(ONE.clone(), gradients={"query": ONE}), False),
        (Reply(error="IndexError: no"), False),
        (None, False),
    ],
)
def test_replies_are_alike_bit_for_bit_or_not_at_all(other: Reply | None, due: bool) -> None:
    assert equal_replies(Reply(ONE), other) is due


def test_errors_are_alike_in_the_same_words() -> None:
    assert equal_replies(Reply(error="IndexError: no"), Reply(error="IndexError: no"))
    assert not equal_replies(Reply(error="IndexError: no"), Reply(error="IndexError: yes"))


def test_gradients_count() -> None:
    assert equal_replies(
        Reply(ONE, gradients={"query": ONE, "key": None}), Reply(ONE, gradients={"query": ONE, "key": None})
    )
    assert not equal_replies(Reply(ONE, gradients={"query": ONE}), Reply(ONE, gradients={"query": ONE * 2}))
    assert not equal_tensors(None, ONE)
