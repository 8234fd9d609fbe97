"""Bad input: whether it is refused, accepted, or read and written beyond its tensors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from checks import CASES
from torch import Tensor

from attnsuite.cases.bad_input import BadInputCase
from attnsuite.contracts import contract, names
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import BAD_INPUT, Status
from attnsuite.worker.calling import run_calls

FEWER_KEYS = CASES["bad_input/more_values_than_keys"]


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return (query @ key.mT).softmax(-1) @ value


def refuses(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    raise ValueError(f"{key.shape[-2]} keys, {value.shape[-2]} values")


def ignores_the_last_values(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(query, key, value[..., : key.shape[-2], :])


def returns_nothing(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Returns no tensor."""


def reads_past_the_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    *lead, _, width = key.shape
    rows = torch.as_strided(key, (*lead, value.shape[-2], width), key.stride(), key.storage_offset())
    return attend(query, rows, value)


def refuses_by_numbers_past_the_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    if float(torch.as_strided(key, (1,), (1,), key.storage_offset() + key.numel())) > 0:
        raise ValueError("too many values")
    return query


def writes_past_the_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    torch.as_strided(key, (1,), (1,), key.storage_offset() + key.numel()).fill_(1.0)
    return query


REFUSES = refuses.__code__.co_firstlineno + 1
ACCEPTED = f"{FEWER_KEYS.why} was accepted"
UNREFUSED = f"input validation: {ACCEPTED}; the contract requires an error"
READ = f"{ACCEPTED}, and memory outside the inputs was read: the output depends on it"


@pytest.mark.parametrize(
    ("function", "verdict"),
    [
        (refuses, Verdict(Status.PASSED, f"ValueError: 7 keys, 9 values (test_bad_input.py, line {REFUSES})")),
        (reads_past_the_keys, Verdict(Status.FAILED, READ)),
        (refuses_by_numbers_past_the_keys, Verdict(Status.FAILED, READ)),
        (writes_past_the_keys, Verdict(Status.FAILED, f"{ACCEPTED}, and the memory of key was written")),
        *(
            (function, Verdict(Status.FAILED, UNREFUSED, accepted=True))
            for function in (ignores_the_last_values, returns_nothing)
        ),
    ],
)  # fmt: skip
def test_bad_input_must_raise_and_must_not_read_or_write_other_memory(
    function: Callable[..., Any], verdict: Verdict
) -> None:
    calls = FEWER_KEYS.calls("float32")

    assert FEWER_KEYS.verdict(calls, run_calls(function, calls), None) == verdict


@pytest.mark.parametrize("wrong", [slice(1), slice(1, None), slice(2, None), slice(3, None), slice(None, None, 2)])
def test_a_result_that_depends_on_earlier_calls_is_not_taken_for_a_read_outside_the_inputs(wrong: slice) -> None:
    calls = FEWER_KEYS.calls("float32")
    factors = torch.ones(len(calls))
    factors[wrong] = 2.0
    factor = iter(factors)

    def counts_its_calls(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return ignores_the_last_values(query, key, value) * next(factor)

    verdict = FEWER_KEYS.verdict(calls, run_calls(counts_its_calls, calls), None)
    assert verdict == Verdict(Status.FAILED, UNREFUSED, accepted=True)


@pytest.mark.parametrize("name", names())
def test_the_family_of_bad_input_holds_the_cases_that_expect_an_error(name: str) -> None:
    for case in contract(name).cases():
        if case.family != "documents":  # a document may print an error as it prints numbers
            assert isinstance(case, BadInputCase) == (case.family == BAD_INPUT), case.name
