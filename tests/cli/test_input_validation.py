"""A submission that accepts bad input: its line in the output, its exit status, --strict and -v."""

from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite.cli.check import row, status
from attnsuite.model import Outcome, Reason, Status

Write = Callable[[str, str], Path]
StatusOf = Callable[..., object]

LENIENT = """
def attention(query, key, value, dropout_p=0.0):
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
"""
READS_PAST_THE_KEYS = """
def attention(query, key, value):
    rows = key
    if key.shape[-2] != value.shape[-2]:
        shape = (*key.shape[:-2], value.shape[-2], key.shape[-1])
        rows = key.as_strided(shape, key.stride(), key.storage_offset())
    return (query @ rows.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
"""
CRASHES = """
import os
def attention(query, key, value):
    if key.shape[-2] != value.shape[-2]:
        os.abort()
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
"""
DROPOUT, WIDTHS, VALUES = "dropout_below_zero", "narrow_keys", "more_values_than_keys"
ACCEPTED = "dropout_p = −0.1 was accepted; the contract requires an error"


def words(file: str, *cases: str) -> list[str]:
    named = [word for case in cases for word in ("--case", f"bad_input/{case}")]
    return ["check", file, "--case", "plain/small", *named, "--dtype", "float32"]


def test_a_lenient_outcome_fails_nothing_and_a_row_says_so() -> None:
    lenient = Outcome(
        *("attention/mine", "attention", f"bad_input/{DROPOUT}", "float32", "cpu"),
        status=Status.FAILED, detail=ACCEPTED, reason=Reason.LENIENT,
    )  # fmt: skip

    assert not lenient.fails
    assert status([lenient], alone=True) == 0
    assert row(lenient)["reason"] == "lenient"


@pytest.mark.slow
def test_xfails_cover_accepted_input_as_before(
    write: Write, status_of: StatusOf, capsys: pytest.CaptureFixture[str]
) -> None:
    write("mine.py", LENIENT)
    write("gaps.txt", "bad_input/dropout_*: the caller checks\n")

    for option in ((), ("--strict",)):
        assert status_of(*words("mine.py", DROPOUT, WIDTHS), "--xfails", "gaps.txt", *option) == 0
        printed = capsys.readouterr().out
        assert "1 of 2 passed, 1 known to fail" in printed
        assert "known as an expected failure (the caller checks), failed: input validation" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (READS_PAST_THE_KEYS, "1 × failed: 7 keys with 9 values was accepted, and memory outside"),
        (CRASHES, "1 × crashed"),
    ],
    ids=["reads outside", "crashes"],
)
def test_reading_outside_and_crashing_fail(
    text: str, says: str, write: Write, status_of: StatusOf, capsys: pytest.CaptureFixture[str]
) -> None:
    write("mine.py", text)

    assert status_of(*words("mine.py", VALUES)) == 1
    printed = capsys.readouterr().out
    assert "attention/mine  1 of 2 passed, 1 " in printed
    assert says in printed
    assert "input validation: 0 of 1 bad inputs are refused" in printed
