"""The file of what libraries really get wrong: how it is read, to whom it applies, and when it no longer holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from attnsuite import machine
from attnsuite.conformance.findings import Finding, load, mark, passing
from attnsuite.contracts import contract, names
from attnsuite.model import FAILURES, STATUSES, Outcome, Reason, UsageError

Write = Callable[[str, str], Path]

ENTRY = """
[[finding]]
id = "lengths"
implementations = ["attention/torch_sdpa.*"]
cases = ["bad_input/more_*"]
except_cases = ["bad_input/more_key_heads"]
dtypes = ["float32"]
devices = ["cpu"]
versions = { torch = ">=2.9,<2.14" }
says = "Keys and values of different lengths are accepted."
judgement = "Memory beyond the tensor is read."
reproduction = '''
import torch
'''
upstream = "https://github.com/pytorch/pytorch/issues/1"
concerns_workloads = false
"""

TORCH = {"python": "3.11.7", "torch": "2.13.0+cpu"}


def outcome(**fields: Any) -> Outcome:
    usual = {
        "implementation": "attention/torch_sdpa.math", "contract": "attention",
        "case": "bad_input/more_keys_than_values", "dtype": "float32", "device": "cpu", "status": "wrong",
    }  # fmt: skip
    return Outcome(**usual | fields)


@pytest.fixture
def finding(write: Write) -> Finding:
    (found,) = load(write("findings.toml", ENTRY), TORCH)
    return found


def complaint(write: Write, text: str) -> str:
    """The one line that a file is refused with, without the folder."""
    file = write("findings.toml", text)
    with pytest.raises(UsageError) as refused:
        load(file, TORCH)
    line = str(refused.value)
    assert line.startswith(str(file))
    assert "\n" not in line
    return line.replace(str(file), "FILE")


# Reading


def test_a_finding_is_read_with_all_its_fields(finding: Finding) -> None:
    assert finding == Finding(
        id="lengths",
        implementations=("attention/torch_sdpa.*",),
        cases=("bad_input/more_*",),
        except_cases=("bad_input/more_key_heads",),
        dtypes=("float32",),
        devices=("cpu",),
        versions={"torch": ">=2.9,<2.14"},
        says="Keys and values of different lengths are accepted.",
        judgement="Memory beyond the tensor is read.",
        reproduction="import torch\n",
        upstream="https://github.com/pytorch/pytorch/issues/1",
        concerns_workloads=False,
    )


def test_no_file_and_an_empty_file_hold_no_findings(tmp_path: Path, write: Write) -> None:
    assert load(tmp_path / "findings.toml", TORCH) == []
    assert load(write("findings.toml", "# none\n"), TORCH) == []


@pytest.mark.parametrize("name", names())
def test_the_file_of_each_contract_can_be_read(name: str) -> None:
    found = load(contract(name).findings, machine.versions())

    assert all(isinstance(finding, Finding) for finding in found)
    assert found or name != "attention", "PyTorch's are recorded"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('id = "lengths"', "", "FILE, finding 1: id is missing"),
        ('says = "Keys', 'said = "Keys', "FILE, finding 1 (lengths): unknown key 'said'; there are: id, impl"),
        ("versions = { torch = ", "#", "FILE, finding 1 (lengths): versions is missing"),
        ('["float32"]', '"float32"', "FILE, finding 1 (lengths): dtypes should be a list of texts, not 'float32'"),
        ('["float32"]', "[32]", "FILE, finding 1 (lengths): dtypes should be a list of texts, not [32]"),
        ('"lengths"', "3", "FILE, finding 1 (3): id should be a text, not 3"),
        ("{ torch = ", '["torch"] # ', "FILE, finding 1 (lengths): versions should be a table of texts, not ['torch']"),
        ('">=2.9,<2.14"', "2.9", "FILE, finding 1 (lengths): versions should be a table of texts, not {'torch': 2.9}"),
        ('">=2.9,<2.14"', '"2.9 or so"', "the version of torch should be like '>=2.9,<2.14', not '2.9 or so'"),
        ("{ torch", "{ pytorch", "FILE, finding 1 (lengths): no version of 'pytorch' is recorded; there are: python"),
        ("[[finding]]", "[[findings]]", "FILE: it holds findings; it should hold [[finding]] tables alone"),
        ("[[finding]]", "[finding]", "FILE: it holds finding; it should hold [[finding]] tables alone"),
        ("[[finding]]", "format = 2\n[[finding]]", "FILE: it holds format; it should hold [[finding]] tables alone"),
        ("= false", '= "no"', "FILE, finding 1 (lengths): concerns_workloads should be true or false, not 'no'"),
        ('["float32"]', "[", "FILE: "),
    ],
)
def test_what_is_no_finding_is_refused_by_file_and_entry(write: Write, old: str, new: str, says: str) -> None:
    assert ENTRY.count(old) == 1

    assert says in complaint(write, ENTRY.replace(old, new))


def test_the_second_of_two_entries_is_named(write: Write) -> None:
    assert complaint(write, ENTRY + ENTRY) == "FILE, finding 2 (lengths): another finding has the same id"
    assert complaint(write, ENTRY + '[[finding]]\nid = "more"').startswith("FILE, finding 2 (more): implementations")


def test_a_list_of_something_else_is_refused(write: Write) -> None:
    assert complaint(write, "finding = [1]") == "FILE, finding 1: it should be a table, not 1"


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "findings.toml"
    file.write_bytes(b"\xff\xfe")

    with pytest.raises(UsageError, match=r"findings\.toml: 'utf-8' codec"):
        load(file, TORCH)


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load(tmp_path, TORCH)


# Versions


@pytest.mark.parametrize(
    ("specifiers", "installed", "applies"),
    [
        ('torch = ">=2.9,<2.14"', {"torch": "2.13.0"}, True),
        ('torch = ">=2.9,<2.14"', {"torch": "2.13.0+cu128"}, True),
        ('torch = ">=2.9,<2.14"', {"torch": "2.14.0"}, False),
        ('torch = ">=2.9"', {"torch": "2.15.0.dev20260101"}, True),
        ('torch = "==2.13.0"', {"torch": "2.13.0+cpu"}, True),
        ('torch = ">=2.9"', {}, False),
        ('torch = ">=2.9", python = ">=3.12"', {"torch": "2.13.0", "python": "3.11.7"}, False),
        ("", {}, True),
    ],
)
def test_a_finding_applies_to_the_versions_it_names(
    write: Write, specifiers: str, installed: dict[str, str], applies: bool
) -> None:
    file = write("findings.toml", ENTRY.replace('torch = ">=2.9,<2.14"', specifiers))

    assert bool(load(file, installed)) is applies


# Marking


@pytest.mark.parametrize("status", STATUSES)
def test_only_failures_are_marked(finding: Finding, status: str) -> None:
    marked = mark(outcome(status=status), [finding])

    assert marked.known == ("lengths" if status in FAILURES else "")
    assert not marked.fails
    assert marked.status == status


def test_accepted_bad_input_that_is_known_is_marked_as_other_failures_are(finding: Finding) -> None:
    marked = mark(replace(outcome(), reason=Reason.LENIENT), [finding])

    assert (marked.known, marked.reason, marked.fails) == ("lengths", Reason.NONE, False)


@pytest.mark.parametrize(
    "other",
    [
        {"implementation": "attention/torch_sdpa"},
        {"implementation": "attention/matmul"},
        {"case": "bad_input/narrow_keys"},
        {"case": "bad_input/more_key_heads"},
        {"dtype": "float16"},
        {"device": "cuda"},
    ],
)
def test_what_a_finding_does_not_cover_stays_a_failure(finding: Finding, other: dict[str, str]) -> None:
    marked = mark(outcome(**other), [finding])

    assert marked.known == ""
    assert marked.fails


def test_patterns_are_case_sensitive_shell_patterns(write: Write) -> None:
    text = ENTRY.replace('"attention/torch_sdpa.*"', '"attention/flex", "*/TORCH_SDPA.*", "attention/[ef]*"')
    (found,) = load(write("findings.toml", text), TORCH)

    assert found.covers(outcome(implementation="attention/flex"))
    assert not found.covers(outcome())


def test_the_first_finding_that_covers_an_outcome_names_it(write: Write) -> None:
    both = load(write("findings.toml", ENTRY + ENTRY.replace('"lengths"', '"again"')), TORCH)

    assert mark(outcome(), both).known == "lengths"


# Strictness


def test_passing_what_a_finding_says_must_fail_is_noticed(finding: Finding) -> None:
    passed = outcome(status="passed")
    others = [outcome(), outcome(status="declined"), outcome(status="passed", case="plain/small")]

    assert passing(finding, [*others, passed]) == [passed]
    assert passing(finding, others) == []


def test_excepted_cases_may_pass(finding: Finding) -> None:
    assert passing(finding, [outcome(status="passed", case="bad_input/more_key_heads")]) == []


def test_what_is_wrong_sometimes_may_fail_and_may_pass(write: Write) -> None:
    text = ENTRY.replace('dtypes = ["float32"]', 'sometimes = ["combined/*causal*"]')
    (finding,) = load(write("findings.toml", text), TORCH)
    failed = outcome(case="combined/e65+causal")
    assert mark(failed, [finding]).known == "lengths"
    assert passing(finding, [outcome(case="combined/e65+causal", status="passed")]) == []
    assert mark(outcome(case="combined/e65"), [finding]).known == ""
