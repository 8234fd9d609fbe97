"""`check --seed N` and `--profile P`: other numbers, other combinations of features, and the same when repeated."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite.cases import contract as declared
from attnsuite.conformance.request import CheckRequest
from attnsuite.contracts import contract

Status = Callable[..., object]
Write = Callable[[str, str], Path]

WRONG = """
import torch

def attention(query, key, value, *, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    is_causal = is_causal and query.shape[-1] <= 64
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )
"""


@pytest.mark.slow
def test_a_failure_under_another_seed_is_printed_with_the_command_that_repeats_it(
    status_of: Status, write: Write, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write("mine.py", WRONG)
    some = [f"combined/*e{width}*causal*" for width in (96, 128, 192, 256)]  # every array has these pairs
    options = ["check", "mine.py", *(f"--case={entry}" for entry in some), "--dtype", "float32", "--seed", "3"]

    assert status_of(*options, "--json", str(tmp_path / "first")) == 1

    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "inputs and combinations of features are drawn with --seed 3"
    again = next(line for line in lines if line.strip().startswith("attnsuite check "))
    assert "--seed 3" in again
    assert status_of(*shlex.split(again)[1:], "--json", str(tmp_path / "again")) == 1
    (row,) = (json.loads(line) for line in (tmp_path / "again").read_text().splitlines())
    rows = [json.loads(line) for line in (tmp_path / "first").read_text().splitlines()]
    assert (row["case"], row["error_ratio"]) in [(item["case"], item["error_ratio"]) for item in rows]


def names(request: CheckRequest) -> set[str]:
    return {case.name for case in request.all_cases(contract("attention")) if case.family == "combined"}


def test_the_full_profile_has_what_the_quick_one_has_and_more() -> None:
    assert names(CheckRequest()) < names(CheckRequest(profile="full"))


@pytest.mark.slow
def test_another_seed_combines_otherwise_and_tests_everything_else() -> None:
    usual, other = CheckRequest(), CheckRequest(seed=3)
    single = [case.name for case in usual.all_cases(contract("attention")) if case.family != "combined"]

    cases = [case.name for case in other.all_cases(contract("attention"))]

    assert cases[: len(single)] == single
    assert names(usual) != set(cases[len(single) :])


def test_a_case_that_is_named_is_tested_without_drawing_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: object, **__: object) -> None:
        raise AssertionError("an array was drawn")

    monkeypatch.setattr(declared, "drawn", drawn)

    assert names(CheckRequest(("combined/e65+causal",), seed=3)) == {"combined/e65+causal"}
