"""`attnsuite claims`: what it prints, writes and refuses; rows in results/, and the page made of them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from attnsuite.cli import claiming
from attnsuite.cli.reporting import report
from attnsuite.documents import claims as room
from attnsuite.documents.claims.claim import Claim, Measured, at_most, number, sampled
from attnsuite.model import Evidence, Holds, UsageError
from attnsuite.results.store import Recorded, Results, load, rows


def one() -> Measured:
    return number(1, "counted")


HOLDS = Claim("toy/holds", "doc-000", "1", "one is | at most two", "one", at_most(2), Evidence.EXACT, one)
DOES_NOT = replace(HOLDS, name="toy/does_not", says="one is at most zero", due=at_most(0))
DRAWN = replace(HOLDS, name="toy/drawn", evidence=Evidence.DRAWN, measure=lambda: sampled([0.5] * 6 + [1.5] * 6))
MISSING = replace(HOLDS, name="toy/missing", measure=lambda: number(len(import_module("no_such_library").__name__)))
RAISES = replace(HOLDS, name="toy/raises", measure=lambda: number(1 / len([])))
EVERY = [HOLDS, DOES_NOT, DRAWN, MISSING]


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "every", lambda: EVERY)


def recorded(results: Path) -> Recorded:
    (machine,) = Results(results).machines()
    return Results(results).read(machine)


def page(results: Path) -> str:
    (file,) = results.glob("*/claims.md")
    return file.read_text(encoding="utf-8")


def test_all_claims_are_measured_recorded_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert claiming.claim([], [], tmp_path) == 0, "that one does not hold, or has no library, is no failure"

    said = capsys.readouterr().out
    assert "toy/does_not  does not hold: one: 1 (at most 0 is due)" in said
    assert "toy/missing  missing: one: No module named 'no_such_library' (at most 2 is due)" in said
    assert "4 claims: 2 hold, 1 does not hold, 1 missing" in said
    found = {each.claim: each for each in recorded(tmp_path).claimed}
    assert {name: each.holds for name, each in found.items()} == {
        "toy/holds": Holds.HOLDS,
        "toy/does_not": Holds.DOES_NOT,
        "toy/drawn": Holds.HOLDS,
        "toy/missing": Holds.MISSING,
    }
    drawn = found["toy/drawn"]
    assert drawn.samples == (0.5,) * 6 + (1.5,) * 6
    assert (drawn.value, drawn.low, drawn.high) == (1.0, 0.5, 1.5)
    assert (drawn.document, drawn.section, drawn.evidence) == ("doc-000", "1", Evidence.DRAWN)


def test_the_page_says_what_is_claimed_measured_and_whether_it_holds(tmp_path: Path) -> None:
    claiming.claim([], [], tmp_path)

    text = page(tmp_path)
    assert (
        "| one is at most zero | doc-000, 1 | one | 1 | at most 0 | **does not hold** | exact | `toy/does_not` |"
        in text
    )
    assert r"| one is \| at most two | doc-000, 1 | one | 1 | at most 2 | holds | exact | `toy/holds` |" in text
    assert "| 1 (0.500 to 1.50) | at most 2 | holds | drawn |" in text
    assert "4 claims: 2 hold, 1 does not hold, 1 missing" in text
    assert "99 %" in text
    assert "[claims](" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_report_makes_the_same_page_of_the_rows_alone(tmp_path: Path) -> None:
    claiming.claim([], [], tmp_path)
    before = page(tmp_path)
    (file,) = tmp_path.glob("*/claims.md")
    file.unlink()

    report(tmp_path)

    assert page(tmp_path) == before


def test_a_claim_that_raises_costs_no_other_and_fails_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(room, "every", lambda: [RAISES, HOLDS])

    assert claiming.claim([], [], tmp_path) == 1

    assert "toy/raises  raised: one: ZeroDivisionError: division by zero" in capsys.readouterr().out
    assert [each.holds for each in recorded(tmp_path).claimed] == [Holds.HOLDS, Holds.RAISED]


def test_claims_that_are_not_asked_keep_their_rows_and_those_that_are_gone_lose_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claiming.claim([], [], tmp_path)
    monkeypatch.setattr(room, "every", lambda: [HOLDS, DOES_NOT, DRAWN])

    claiming.claim(["toy/holds"], [], tmp_path)

    runs = {each.claim: run for run, each in recorded(tmp_path).examined}
    assert set(runs) == {"toy/holds", "toy/does_not", "toy/drawn"}
    assert runs["toy/does_not"] == runs["toy/drawn"] != runs["toy/holds"]


def test_an_interrupted_run_goes_on_with_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> Measured:
        raise KeyboardInterrupt

    cut = replace(DOES_NOT, measure=interrupted)
    monkeypatch.setattr(room, "every", lambda: [HOLDS, cut, DRAWN, MISSING])
    with pytest.raises(KeyboardInterrupt):
        claiming.claim([], [], tmp_path)
    capsys.readouterr()

    monkeypatch.setattr(room, "every", lambda: EVERY)
    claiming.claim([], [], tmp_path)

    came = capsys.readouterr()
    assert "1 claims are there already" in came.err
    assert "toy/holds" not in came.out
    assert len({run for run, _ in recorded(tmp_path).examined}) == 1
    assert len(recorded(tmp_path).claimed) == 4


def test_a_run_that_finds_the_same_writes_the_same_rows(tmp_path: Path) -> None:
    written = []
    for _ in range(2):
        claiming.claim([], [], tmp_path)
        (file,) = tmp_path.glob("*/claims.jsonl")
        written.append(file.read_text(encoding="utf-8"))

    assert written[0] == written[1]
    assert all(json.loads(line)["implementation"] == "claims/toy" for line in written[0].splitlines())


def test_a_row_that_was_altered_or_is_lost_is_noticed(tmp_path: Path) -> None:
    claiming.claim([], [], tmp_path)
    (file,) = tmp_path.glob("*/claims.jsonl")
    whole = file.read_text(encoding="utf-8")

    file.write_text(whole.replace('"holds": "does not hold"', '"holds": "holds"'), encoding="utf-8")
    with pytest.raises(UsageError, match="and what is there is not the same"):
        recorded(tmp_path)

    file.write_text("".join(whole.splitlines(keepends=True)[1:]), encoding="utf-8")
    with pytest.raises(UsageError, match="wrote 4 rows of claims/toy on cpu, and 3 are there"):
        recorded(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("holds", "perhaps", "holds is 'perhaps', not one of holds, does not hold, "),
        ("evidence", "guessed", "evidence is 'guessed', not one of exact, drawn, trained, timed"),
        ("samples", ["inf"], "samples should be finite"),
        ("value", "one", "value should be a number, not 'one'"),
    ],
)
def test_what_is_no_row_of_a_claim_is_said(field: str, value: object, says: str) -> None:
    row = {"run": "r1", **rows.lean(DRAWN.examine())}
    assert rows.claimed(row)[1].samples == (0.5,) * 6 + (1.5,) * 6

    with pytest.raises(ValueError, match=says):
        rows.claimed({**row, field: value})


def test_claims_are_loaded_as_a_table(tmp_path: Path) -> None:
    claiming.claim([], [], tmp_path)

    table = load(tmp_path, "claims").set_index("claim")

    assert table.loc["toy/does_not", "holds"] == "does not hold"
    assert table.loc["toy/drawn", "value"] == 1.0


def test_a_name_that_no_claim_has_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no claim is named 'toys'; topics are: toy"):
        claiming.claim(["toys"], [], tmp_path / "results")

    assert not (tmp_path / "results").exists()


def test_the_command_line_measures_what_is_named(tmp_path: Path) -> None:
    words = ("claims", "normalisation", "--evidence", "exact", "--results", str(tmp_path))
    done = subprocess.run([sys.executable, "-m", "attnsuite", *words], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "normalisation/layer  does not hold: " in done.stdout
    assert "2 claims: 1 holds, 1 does not hold" in done.stdout
