"""Conformance from Python, and what every way of asking has in common: requests, sessions, processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import attnsuite
from attnsuite import registry
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.contracts import contract
from attnsuite.model import EVERY_CASE, Outcome
from attnsuite.registry import Declaration

Write = Callable[[str, str], Path]

CONTRACT = contract("attention")

KERNEL = """
import torch

def attention(query, key, value):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)
"""


def in_words(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    return [(outcome.case, outcome.dtype, outcome.status) for outcome in outcomes]


def run(target: str | Path, *cases: str, time_limit: float = 60.0, **request: Any) -> list[Outcome]:
    """Check one target in a process of its own, in float32."""
    asked = CheckRequest(cases, ("float32",), time_limit=time_limit, **request)
    (declaration,) = registry.find([str(target)])
    return Session(asked).outcomes(declaration)


# attnsuite.check


def test_a_builtin_is_checked_and_its_bad_input_in_a_process_of_its_own() -> None:
    outcomes = attnsuite.check(scaled_dot_product_attention, cases=("causal/square_5", "bad_input/narrow_keys"))

    assert {outcome.implementation for outcome in outcomes} == {"attention/scaled_dot_product_attention"}
    assert {outcome.status for outcome in outcomes} == {"passed"}
    assert len(outcomes) == 4, "three dtypes, and bad input in float32"


@pytest.mark.parametrize(
    ("dtypes", "asked"),
    [
        (None, ["float64", "float32", "float16", "bfloat16"]),
        (["bfloat16", "float32"], ["float32", "bfloat16"]),
        (torch.float64, ["float64"]),
        ([torch.float32, "float16"], ["float32", "float16"]),
    ],
)
def test_dtypes_are_names_or_torch_s_own(dtypes: Any, asked: list[str]) -> None:
    outcomes = attnsuite.check(scaled_dot_product_attention, cases="plain/small", dtypes=dtypes)

    assert [outcome.dtype for outcome in outcomes] == asked


@pytest.mark.parametrize(
    ("cases", "chosen"),
    [
        ("plain/one_head", {"plain/one_head"}),
        (["plain/one_head", "plain/small", "plain/small"], {"plain/one_head", "plain/small"}),
        ("heads/*_groups", {"heads/two_groups", "heads/three_groups"}),
        ("no_keys/", {case.name for case in CONTRACT.cases() if case.family == "no_keys"}),
    ],
)
def test_cases_are_names_families_or_patterns(cases: Any, chosen: set[str]) -> None:
    outcomes = attnsuite.check(scaled_dot_product_attention, cases=cases, dtypes="float32")

    assert {outcome.case for outcome in outcomes} == chosen
    assert len(outcomes) == len(chosen)


def test_numpy_computes_on_one_thread_meanwhile_and_on_as_many_as_before_afterwards() -> None:
    seen: list[int] = []

    def threads() -> int:
        return max(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen.append(threads())
        return scaled_dot_product_attention(query, key, value)

    with threadpool_limits(2, user_api="blas"):
        attnsuite.check(attention, cases="plain/small", dtypes="float32")
        after = threads()

    assert (set(seen), after) == ({1}, 2)


@pytest.fixture
def untidy() -> Iterator[Callable[..., Tensor]]:
    """A correct function that changes torch's state; the state is put back afterwards."""
    threads = torch.get_num_threads()

    def attention(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0) -> Tensor:
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.manual_seed(5)
        return scaled_dot_product_attention(query, key, value, dropout_p=dropout_p)

    torch.set_num_threads(3)
    yield attention
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)


def test_the_caller_s_torch_is_left_as_it_was(untidy: Callable[..., Tensor]) -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)

    outcomes = attnsuite.check(untidy, cases=("plain/small", "dropout/zero"), dtypes="float32")

    assert {outcome.status for outcome in outcomes} == {"passed"}
    assert torch.get_num_threads() == 3
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert torch.equal(torch.rand(3), expected), "the caller's random numbers go on where they stopped"


# Processes of their own


@pytest.mark.parametrize(
    ("source", "status", "detail"),
    [
        ("raise SystemExit(3)\ndef attention(query, key, value): ...", "error", "SystemExit: 3"),
        ("import os; os._exit(3)\ndef attention(query, key, value): ...", "crashed", "crashed: exit status 3"),
        (
            'from attnsuite import implementation\n@implementation(requires=["nosuchlibrary"])\n'
            "def attention(query, key, value): ...",
            "missing",
            "No module named 'nosuchlibrary'",
        ),
    ],
)
def test_what_cannot_be_imported_is_one_row(write: Write, source: str, status: str, detail: str) -> None:
    (outcome,) = run(write("kernel.py", source), "plain")

    assert (outcome.case, outcome.dtype, outcome.status) == (EVERY_CASE, EVERY_CASE, status)
    assert detail in outcome.detail


def test_an_implementation_of_an_unknown_contract_is_one_row() -> None:
    """An entry point of another package may declare it; it must not keep the others from being checked."""
    session, stranger = (
        Session(CheckRequest(("plain/small",))),
        Declaration("transformers", "x", "attention", "a_module"),
    )

    (outcome,) = session.run(stranger)

    assert outcome.detail.startswith("unknown contract 'transformers'; there are: add_norm, additive_attention, ")
    assert (outcome.status, session.count(stranger)) == ("error", 1)


@pytest.mark.parametrize("isolate", [True, False])
def test_shipped_implementations_run_in_this_process_unless_isolated(
    isolate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "attnsuite.implementations.attention.chunked"
    monkeypatch.delitem(sys.modules, module, raising=False)

    outcomes = run("attention/chunked", "plain/small", isolate=isolate)

    assert in_words(outcomes) == [("plain/small", "float32", "passed")]
    assert (module in sys.modules) is not isolate


IMITATION = """
import torch
from attnsuite import implementation

@implementation(variant="math")
def attention(*tensors, **options):
    return torch.nn.functional.scaled_dot_product_attention(*tensors, **options)
"""


def test_known_bugs_cover_only_shipped_implementations(write: Callable[[str, str], Path]) -> None:
    stranger = write("torch_sdpa.py", IMITATION)
    session = Session(CheckRequest(("bad_input/dropout_below_zero",), ("float32",)))

    shipped = session.outcomes(*registry.find(["torch_sdpa.math"]))
    imitated = session.outcomes(*registry.find([str(stranger)]))

    assert [outcome.known for outcome in shipped] == ["sdpa-math-negative-dropout"]
    assert [(outcome.implementation, outcome.known) for outcome in imitated] == [("attention/torch_sdpa.math", "")]
