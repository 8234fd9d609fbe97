"""A file of known gaps: how it is read, what it covers, and that it is strict both ways."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checks import about, check, only

from attnsuite.conformance.gaps import Gap, KnownGap, of_contract, read
from attnsuite.contracts import contract
from attnsuite.model import Outcome, Shard, UsageError

Write = Callable[[str, str], Path]
Status = Callable[..., object]
Pytest = Callable[..., Any]

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


def complaint(write: Write, text: str) -> str:
    file = write("gaps.txt", text)
    with pytest.raises(UsageError) as refused:
        read(file)
    assert "\n" not in str(refused.value)
    return str(refused.value).replace(str(file.parent) + "/", "")


def test_a_line_is_a_pattern_dtypes_and_a_reason(write: Write) -> None:
    file = str(write("gaps.txt", FILE))

    assert read(file) == (
        Gap(file, 3, "plain/small", (), "it is off by one there"),
        Gap(file, 5, "scale/half", ("float16", "bfloat16"), "halves: not yet"),
        Gap(file, 6, "finding/sdpa-cpu-mask-of-rank-1", (), "we forward"),
    )


def test_an_empty_file_has_no_gaps(write: Write) -> None:
    assert read(write("gaps.txt", "\n# none\n")) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "plain/small",
            "gaps.txt:1: 'plain/small' should be `case pattern: reason`, or `case pattern float16: reason`",
        ),
        ("#\nplain/small:", "gaps.txt:2: a gap has a reason; write it after the colon"),
        ("plain/small float8: x", "gaps.txt:1: unknown dtype 'float8'; there are: float64, float32, float16, bfloat16"),
        (": x", "gaps.txt:1: ': x' should be `case pattern: reason`"),
        ("a: x\nb: x\na: y", "gaps.txt:3 repeats line 1: a"),
    ],
)
def test_what_is_no_gap_is_refused_by_file_and_line(write: Write, text: str, says: str) -> None:
    assert says in complaint(write, text)


def test_what_is_no_file_of_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    for name, says in {
        "binary": "is not UTF-8",
        "nosuch": "No such file",
        "": "Is a directory",
        "a\0b": "null",
    }.items():
        with pytest.raises(UsageError, match=says):
            read(f"{tmp_path}/{name}")


# What is covered


def outcome(case: str, dtype: str = "float32", status: str = "wrong") -> Outcome:
    return Outcome("attention/mine", "attention", case, dtype, "cpu", status)


def known(line: str, write: Write) -> KnownGap:
    return KnownGap(only(read(write("gaps.txt", line))))


def test_a_gap_covers_names_families_and_patterns_in_its_dtypes(write: Write) -> None:
    assert known("scale: x", write).covers(outcome("scale/half"))
    assert known("scale/h*: x", write).covers(outcome("scale/half"))
    assert not known("scale/half: x", write).covers(outcome("scale/half_causal"))
    assert not known("scale float16: x", write).covers(outcome("scale/half"))
    assert known("scale float16: x", write).covers(outcome("scale/half", "float16"))


def test_a_finding_s_gap_has_its_cases_and_none_where_the_finding_does_not_apply(write: Write) -> None:
    from attnsuite import machine
    from attnsuite.conformance.findings import load

    of = contract("attention")
    gaps = read(write("gaps.txt", "finding/sdpa-cpu-mask-of-rank-1: we forward"))
    (gap,) = of_contract(gaps, of, load(of.findings, machine.versions()))

    assert gap.covers(outcome("bool_mask/rank_1"))
    assert gap.must_fail(outcome("bool_mask/rank_1", status="passed"))
    assert gap.covers(outcome("combined/bool_mask+s+causal"))
    assert not gap.must_fail(outcome("combined/bool_mask+s+causal", status="passed")), "it is wrong sometimes"
    assert not gap.covers(outcome("bool_mask/random"))
    assert list(of_contract(gaps, of, [])) == []


# Strictness


def always_right(query: Any, key: Any, value: Any) -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(query, key, value)


def test_a_gap_that_closed_is_an_error(write: Write) -> None:
    found = check(always_right, "plain/small", "plain/ordinary", found=[known("plain/s*: it is off", write)])

    due = "gaps.txt:1 says these fail, but they pass: plain/small (float32); remove or narrow the line"
    assert about(found) == {"gap/plain/s*": due}


def test_a_gap_whose_cases_are_all_declined_is_an_error(write: Write) -> None:
    gaps = [known("scale/half: it has none", write)]

    found = check(always_right, "plain/small", "scale/half", found=gaps)

    (said,) = about(found).values()
    assert said == "gaps.txt:1 covers 1 question, declined without exception: none can fail; remove the line"
    assert about(check(always_right, "plain/small", found=gaps)) == {}, "what is not asked is not judged"


def test_a_shard_cannot_tell_that_nothing_fails_by_a_gap(status_of: Status, write: Write) -> None:
    gap, mine = write("gaps.txt", "*: it is off where scores are halved\n"), write("mine.py", MINE)
    asked = ["check", str(mine), "--case", "scale/half", "--case", "causal", "--dtype", "float32"]
    declined = next(index for index in (1, 2) if Shard(index, 2).takes("attention/mine", "causal"))

    assert not Shard(declined, 2).takes("attention/mine", "scale"), "what fails is in the other"
    status_of(*asked, "--known-gaps", str(gap), "--shard", f"{declined}/2", "--json", "rows.jsonl")

    rows = [json.loads(line) for line in (mine.parent / "rows.jsonl").read_text().splitlines()]
    assert {row["status"] for row in rows} == {"declined"}


# On the command line


@pytest.fixture
def mine(write: Write) -> Path:
    return write("mine.py", MINE)


ASKED = ("--case", "plain/small", "--case", "scale/half", "--dtype", "float32")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_failure_under_a_gap_is_shown_with_its_reason_and_does_not_fail(
    status_of: Status, mine: Path, write: Write, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    write("gaps.txt", "scale/half: off by one, mended in 2.0")

    assert status_of("check", "mine.py", *ASKED) == 1
    capsys.readouterr()
    asked = ("check", "mine.py", *ASKED, "--jobs", jobs, "--known-gaps", "gaps.txt", "--json", "rows.jsonl")
    assert status_of(*asked) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "attention/mine  1 of 2 passed, 1 known to fail"
    assert lines[1].startswith("  1 × known as a gap (off by one, mended in 2.0), wrong: ")
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert {row["case"]: row["status"] for row in rows} == {"plain/small": "passed", "scale/half": "wrong"}


def test_a_gap_that_closed_fails_the_run_and_is_said_first(
    status_of: Status, mine: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write("gaps.txt", "scale/half: off by one\nplain/small: never")

    assert status_of("check", "mine.py", *ASKED, "--known-gaps", "gaps.txt") == 1

    _, first, again, *_ = capsys.readouterr().out.splitlines()
    assert (
        first
        == "  1 × wrong: gaps.txt:2 says these fail, but they pass: plain/small (float32); remove or narrow the line"
    )
    assert again.endswith(f"mine.py --known-gaps gaps.txt {shlex.join(ASKED)}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("plane/small: x", "gaps.txt:1: no case of attention matches 'plane/small'; did you mean plain/"),
        ("finding/nosuch: x", "gaps.txt:1: no finding of the installed versions is called 'nosuch'; there are: sdpa-"),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused_before_anything_is_asked(
    status_of: Status, mine: Path, write: Write, capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    write("gaps.txt", line)

    assert status_of("check", "mine.py", *ASKED, "--known-gaps", "gaps.txt") == 2

    said = capsys.readouterr()
    assert said.err.startswith(f"attnsuite: {says}")
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_what_ships_has_findings_and_no_gaps(
    status_of: Status, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write("gaps.txt", "plain/small: x")

    assert status_of("check", "matmul", "--known-gaps", "gaps.txt") == 2
    assert "known gaps are about implementations of one's own" in capsys.readouterr().err


# In a test run


@pytest.mark.slow
def test_a_test_run_expects_the_failures_of_gaps_and_is_as_strict(
    mine: Path, write: Write, run_pytest: Pytest, reported: Callable[[], dict[str, tuple[str, str]]]
) -> None:
    write("gaps.txt", "scale/half: off by one\nplain/small float32: never")
    write("pytest.ini", "[pytest]\nstrict = true\nfilterwarnings = error\npythonpath = .\n")
    write(
        "test_mine.py",
        "from mine import attention\nfrom attnsuite.pytest_plugin import conformance\n"
        "test_mine = conformance(attention, cases=['scale/half'], dtypes='float32', known_gaps='gaps.txt')\n",
    )
    chosen = [f"--attention-{word.removeprefix('--')}" if word.startswith("--") else word for word in ASKED]

    done = run_pytest("--attention", "mine.py", *chosen, "--attention-known-gaps", "gaps.txt")

    found = reported()
    assert done.returncode == 1
    assert {name: status for name, (status, _) in found.items()} == {
        "test_mine test_mine[scale/half-float32]": "xfail",
        "test_mine test_mine[declarations]": "passed",
        "attention.mine plain/small[float32]": "failure",
        "attention.mine scale/half[float32]": "xfail",
        "attention.mine declarations": "passed",
    }
    assert found["attention.mine scale/half[float32]"][1].startswith("known as a gap (off by one): ")
    assert "gaps.txt:2 says these fail, but they pass: plain/small" in found["attention.mine plain/small[float32]"][1]


def test_a_test_run_refuses_a_pattern_that_matches_nothing(mine: Path, write: Write, run_pytest: Pytest) -> None:
    write("gaps.txt", "plane: x")

    done = run_pytest("--attention", "mine.py", "--attention-known-gaps", "gaps.txt")

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "attnsuite: gaps.txt:1: no case of attention matches 'plane'" in done.stderr
