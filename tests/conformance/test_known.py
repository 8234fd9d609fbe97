"""Known bugs and expected failures: how their files are read, which outcomes they cover, when they no longer hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checks import about, check, only
from msgspec import structs

from attnsuite import machine
from attnsuite.conformance.known import KnownBug, Xfail, known_bugs, mark, passing, read_xfails, xfails_of
from attnsuite.contracts import contract, names
from attnsuite.model import FAILURES, STATUSES, Outcome, Reason, Shard, UsageError

Write = Callable[[str, str], Path]
Status = Callable[..., object]
Pytest = Callable[..., Any]

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
        "case": "bad_input/more_keys_than_values", "dtype": "float32", "device": "cpu", "status": "failed",
    }  # fmt: skip
    return Outcome(**usual | fields)


@pytest.fixture
def bug(write: Write) -> KnownBug:
    return only(known_bugs(write("findings.toml", ENTRY), TORCH))


def complaint(read: Callable[[Path], object], file: Path) -> str:
    """The one line with which a file is refused, without its folder."""
    with pytest.raises(UsageError) as refused:
        read(file)
    assert "\n" not in str(refused.value)
    return str(refused.value).replace(f"{file.parent}/", "")


def bug_complaint(write: Write, text: str) -> str:
    return complaint(lambda file: known_bugs(file, TORCH), write("findings.toml", text))


# The file of known bugs


def test_no_file_and_an_empty_file_have_no_known_bugs(tmp_path: Path, write: Write) -> None:
    assert known_bugs(tmp_path / "findings.toml", TORCH) == []
    assert known_bugs(write("findings.toml", "# none\n"), TORCH) == []


@pytest.mark.parametrize("name", names())
def test_the_file_of_each_contract_is_valid(name: str) -> None:
    assert known_bugs(contract(name).known_bugs, machine.versions()) or name != "attention", "PyTorch's are recorded"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('id = "lengths"', "", "findings.toml, finding 1: Object missing required field `id`"),
        ('says = "Keys', 'said = "Keys', "finding 1 (lengths): Object contains unknown field `said`"),
        ('["float32"]', '"float32"', "finding 1 (lengths): Expected `array`, got `str` - at `$.dtypes`"),
        ('["float32"]', "[32]", "finding 1 (lengths): Expected `str`, got `int` - at `$.dtypes[0]`"),
        ('"lengths"', "3", "finding 1 (3): Expected `str`, got `int` - at `$.id`"),
        ("{ torch = ", '["torch"] # ', "finding 1 (lengths): Expected `object`, got `array` - at `$.versions`"),
        ('">=2.9,<2.14"', '"2.9 or so"', "the version of torch should be like '>=2.9,<2.14', not '2.9 or so'"),
        ("{ torch", "{ pytorch", "finding 1 (lengths): no version of 'pytorch' is recorded; there are: python"),
        ("[[finding]]", "[[findings]]", "findings.toml: it holds findings; it should hold [[finding]] tables alone"),
        ("[[finding]]", "[finding]", "findings.toml: it holds finding; it should hold [[finding]] tables alone"),
        ("[[finding]]", "format = 2\n[[finding]]", "it holds format; it should hold [[finding]] tables alone"),
        ("= false", '= "no"', "finding 1 (lengths): Expected `bool`, got `str` - at `$.concerns_workloads`"),
        ('["float32"]', "[", "findings.toml: "),
    ],
)
def test_an_invalid_known_bug_is_refused_by_file_and_entry(write: Write, old: str, new: str, says: str) -> None:
    assert ENTRY.count(old) == 1

    assert says in bug_complaint(write, ENTRY.replace(old, new))


def test_the_second_of_two_entries_is_named(write: Write) -> None:
    assert bug_complaint(write, ENTRY + ENTRY) == "findings.toml, finding 2 (lengths): another finding has the same id"
    assert bug_complaint(write, "finding = [1]") == "findings.toml, finding 1: Expected `object`, got `int`"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "findings.toml"
    file.write_bytes(b"\xff\xfe")

    assert "findings.toml: 'utf-8' codec" in complaint(lambda path: known_bugs(path, TORCH), file)
    assert "cannot be read: Is a directory" in complaint(lambda path: known_bugs(path, TORCH), tmp_path)


@pytest.mark.parametrize(
    ("specifiers", "installed", "applies"),
    [
        ('torch = ">=2.9,<2.14"', {"torch": "2.13.0"}, True),
        ('torch = ">=2.9,<2.14"', {"torch": "2.13.0+cu128"}, True),
        ('torch = ">=2.9,<2.14"', {"torch": "2.14.0"}, False),
        ('torch = ">=2.9"', {"torch": "2.15.0.dev20260101"}, True),
        ('torch = ">=2.9"', {}, False),
        ('torch = ">=2.9", python = ">=3.12"', {"torch": "2.13.0", "python": "3.11.7"}, False),
        ("", {}, True),
    ],
)
def test_a_known_bug_applies_to_the_versions_it_names(
    write: Write, specifiers: str, installed: dict[str, str], applies: bool
) -> None:
    file = write("findings.toml", ENTRY.replace('torch = ">=2.9,<2.14"', specifiers))

    assert bool(known_bugs(file, installed)) is applies


# What known bugs cover


@pytest.mark.parametrize("status", STATUSES)
def test_only_failures_are_marked(bug: KnownBug, status: str) -> None:
    marked = mark(outcome(status=status), [bug])

    assert marked.known == ("lengths" if status in FAILURES else "")
    assert (marked.status, marked.fails) == (status, False)


def test_accepted_bad_input_is_marked_as_other_failures_are(bug: KnownBug) -> None:
    marked = mark(structs.replace(outcome(), reason=Reason.LENIENT), [bug])

    assert (marked.known, marked.reason, marked.fails) == ("lengths", Reason.NONE, False)


@pytest.mark.parametrize(
    "other",
    [
        {"implementation": "attention/torch_sdpa"},
        {"implementation": "attention/TORCH_SDPA.math"},
        {"case": "bad_input/narrow_keys"},
        {"case": "bad_input/more_key_heads"},
        {"dtype": "float16"},
        {"device": "cuda"},
    ],
)
def test_other_failures_stay_failures(bug: KnownBug, other: dict[str, str]) -> None:
    assert mark(outcome(**other), [bug]).fails


def test_a_passing_test_that_should_fail_is_reported(bug: KnownBug) -> None:
    passed = outcome(status="passed")
    others = [
        outcome(),
        outcome(status="unsupported"),
        outcome(status="passed", case="plain/small"),
        outcome(status="passed", case="bad_input/more_key_heads"),
    ]

    assert passing(bug, [*others, passed]) == [passed]


def test_a_case_that_fails_sometimes_may_fail_and_may_pass(write: Write) -> None:
    text = ENTRY.replace('dtypes = ["float32"]', 'sometimes = ["combined/*causal*"]')
    (bug,) = known_bugs(write("findings.toml", text), TORCH)

    assert mark(outcome(case="combined/e65+causal"), [bug]).known == "lengths"
    assert passing(bug, [outcome(case="combined/e65+causal", status="passed")]) == []
    assert mark(outcome(case="combined/e65"), [bug]).known == ""


# The file of expected failures

FILE = """
# gaps of mine
plain/small: it is off by one there

scale/half  float16 bfloat16 : halves: not yet
finding/sdpa-cpu-mask-of-rank-1: we forward
"""

MINE = """
import torch

def attention(query, key, value, *, scale=None):
    output = torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=scale)
    return output + 1 if scale == 0.5 else output
"""


def test_a_line_is_a_pattern_dtypes_and_a_reason(write: Write) -> None:
    file = str(write("gaps.txt", FILE))

    assert read_xfails(file) == (
        Xfail(file, 3, "plain/small", (), "it is off by one there"),
        Xfail(file, 5, "scale/half", ("float16", "bfloat16"), "halves: not yet"),
        Xfail(file, 6, "finding/sdpa-cpu-mask-of-rank-1", (), "we forward"),
    )
    assert read_xfails(write("gaps.txt", "\n# none\n")) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "plain/small",
            "gaps.txt:1: 'plain/small' should be `case pattern: reason`, or `case pattern float16: reason`",
        ),
        ("#\nplain/small:", "gaps.txt:2: an expected failure has a reason; write it after the colon"),
        ("plain/small float8: x", "gaps.txt:1: unknown dtype 'float8'; there are: float64, float32, float16, bfloat16"),
        (": x", "gaps.txt:1: ': x' should be `case pattern: reason`"),
        ("a: x\nb: x\na: y", "gaps.txt:3 repeats line 1: a"),
    ],
)
def test_an_invalid_line_is_refused_by_file_and_line(write: Write, text: str, says: str) -> None:
    assert says in complaint(read_xfails, write("gaps.txt", text))


@pytest.mark.parametrize(
    ("name", "says"),
    [("binary", "is not UTF-8"), ("nosuch", "No such file"), ("", "Is a directory"), ("a\0b", "null")],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    with pytest.raises(UsageError, match=says):
        read_xfails(f"{tmp_path}/{name}")


def xfail(line: str, write: Write) -> Xfail:
    return only(read_xfails(write("gaps.txt", line)))


def mine(case: str, dtype: str = "float32", status: str = "failed") -> Outcome:
    return outcome(implementation="attention/mine", case=case, dtype=dtype, status=status)


@pytest.mark.parametrize(
    ("line", "case", "dtype", "covers"),
    [
        ("scale: x", "scale/half", "float32", True),
        ("scale/h*: x", "scale/half", "float32", True),
        ("scale/half: x", "scale/half_causal", "float32", False),
        ("scale float16: x", "scale/half", "float32", False),
        ("scale float16: x", "scale/half", "float16", True),
    ],
)
def test_an_expected_failure_covers_names_families_and_patterns_in_its_dtypes(
    write: Write, line: str, case: str, dtype: str, covers: bool
) -> None:
    assert xfail(line, write).covers(mine(case, dtype)) is covers


def test_the_id_of_a_known_bug_means_its_cases_while_it_applies(write: Write) -> None:
    of = contract("attention")
    xfails = [xfail("finding/sdpa-cpu-mask-of-rank-1: we forward", write)]
    (known,) = xfails_of(xfails, known_bugs(of.known_bugs, machine.versions()))

    assert known.covers(mine("bool_mask/rank_1"))
    assert known.must_fail(mine("bool_mask/rank_1", status="passed"))
    assert known.covers(mine("combined/bool_mask+s+causal"))
    assert not known.must_fail(mine("combined/bool_mask+s+causal", status="passed")), "it is wrong sometimes"
    assert not known.covers(mine("bool_mask/random"))
    assert list(xfails_of(xfails, [])) == []


def always_right(query: Any, key: Any, value: Any) -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(query, key, value)


def test_an_expected_failure_of_unsupported_tests_alone_is_an_error(write: Write) -> None:
    known = [xfail("scale/half: it has none", write)]

    (says,) = about(check(always_right, "plain/small", "scale/half", known=known)).values()

    assert says == "gaps.txt:1 covers 1 test, all of them unsupported: none can fail; remove the line"
    assert about(check(always_right, "plain/small", known=known)) == {}, "no test of it was run"


def test_a_shard_cannot_tell_that_no_test_can_fail(status_of: Status, write: Write) -> None:
    gaps, file = write("gaps.txt", "*: it is off where scores are halved\n"), write("mine.py", MINE)
    unsupported = next(index for index in (1, 2) if Shard(index, 2).takes("attention/mine", "causal"))
    assert not Shard(unsupported, 2).takes("attention/mine", "scale"), "the failing test is in the other shard"
    options = ["--case", "scale/half", "--case", "causal", "--dtype", "float32", "--shard", f"{unsupported}/2"]

    status_of("check", str(file), *options, "--xfails", str(gaps), "--json", "rows.jsonl")

    rows = [json.loads(line) for line in (file.parent / "rows.jsonl").read_text().splitlines()]
    assert {row["status"] for row in rows} == {"unsupported"}


# On the command line and in pytest

OPTIONS = ("--case", "plain/small", "--case", "scale/half", "--dtype", "float32")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_expected_failure_is_shown_with_its_reason_and_does_not_fail(
    status_of: Status, write: Write, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    write("mine.py", MINE)
    write("gaps.txt", "scale/half: off by one, mended in 2.0")

    assert status_of("check", "mine.py", *OPTIONS, "--jobs", jobs, "--xfails", "gaps.txt") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "attention/mine  1 of 2 passed, 1 known to fail"
    assert lines[1].startswith("  1 × known as an expected failure (off by one, mended in 2.0), failed: ")


def test_an_unknown_known_bug_is_refused_before_any_test(
    status_of: Status, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write("mine.py", MINE)
    write("gaps.txt", "finding/nosuch: x")

    assert status_of("check", "mine.py", *OPTIONS, "--xfails", "gaps.txt") == 2

    says = "attnsuite: gaps.txt:1: no known bug of the installed versions is called 'nosuch'; there are: "
    assert capsys.readouterr().err.startswith(says)


@pytest.mark.slow
def test_pytest_expects_the_same_failures(
    write: Write, run_pytest: Pytest, reported: Callable[[], dict[str, tuple[str, str]]]
) -> None:
    write("mine.py", MINE)
    write("gaps.txt", "scale/half: off by one\nplain/small float32: never")
    write("pytest.ini", "[pytest]\nstrict = true\nfilterwarnings = error\npythonpath = .\n")
    write(
        "test_mine.py",
        "from mine import attention\nfrom attnsuite.pytest_plugin import conformance\n"
        "test_mine = conformance(attention, cases=['scale/half'], dtypes='float32', xfails='gaps.txt')\n",
    )
    options = [f"--attention-{word.removeprefix('--')}" if word.startswith("--") else word for word in OPTIONS]

    done = run_pytest("--attention", "mine.py", *options, "--attention-xfails", "gaps.txt")

    found = reported()
    assert done.returncode == 1
    assert {name: status for name, (status, _) in found.items()} == {
        "test_mine test_mine[scale/half-float32]": "xfail",
        "test_mine test_mine[declarations]": "passed",
        "attention.mine plain/small[float32]": "failure",
        "attention.mine scale/half[float32]": "xfail",
        "attention.mine declarations": "passed",
    }
    assert found["attention.mine scale/half[float32]"][1].startswith("known as an expected failure (off by one): ")
    assert "gaps.txt:2 says these fail, but they pass: plain/small" in found["attention.mine plain/small[float32]"][1]
