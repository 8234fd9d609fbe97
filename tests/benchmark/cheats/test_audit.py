"""Some of the submissions, really submitted: asked and timed in processes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from builders_of_cheats import an_audit

from attnsuite.benchmark.cheats import audit as audit_module
from attnsuite.benchmark.cheats.audit import audit
from attnsuite.benchmark.cheats.catalogue import catalogue
from attnsuite.cli import audit as auditing
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.model import CheatsAudit
from attnsuite.model.bounded import NOT_BOUNDED
from attnsuite.model.temporary import PREFIX
from attnsuite.worker import process as started
from attnsuite.worker.sandbox import MECHANISMS, Protection, detected, protects

FEW = ("honest", "wrong_zeros", "clock_halved", "lazy_instance")
MORE = (
    *("honest_once_asked_again", "thread_when_timed", "precomputed_untimed", "turns_slowed"),
    "turns_answered_at_once",
)
NO_MACHINE_S = {("float32", 1): {"flops": 1e18, "bytes": 1e9}}
"""Ceilings above whatever is claimed: to measure real ones takes seconds."""


def audited(names: Sequence[str]) -> CheatsAudit:
    """An audit of these, in one group, which takes less time than two, each with its control."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_module, "CASES", ("plain",))
        patch.setattr(audit_module, "GROUP", len(names))
        return audit(names=names)


@pytest.fixture(scope="module")
def found() -> CheatsAudit:
    return audited(FEW)


@pytest.mark.slow
def test_more_of_them_get_their_verdicts() -> None:
    found = audited(MORE)

    assert [trial.happened for trial in found.through] == []
    assert found.passed
    assert len(found.trials) >= 2 * len(MORE)


@pytest.mark.slow
def test_honest_ones_are_not_accused_and_all_others_get_their_verdicts(found: CheatsAudit) -> None:
    assert [trial.happened for trial in found.through] == []
    assert found.passed
    asked = [(trial.cheat.name, trial.command) for trial in found.trials]
    assert sorted(asked) == sorted((name, command) for name in FEW for command in ("check", "bench"))


@pytest.mark.slow
def test_what_happened_is_told_in_the_suite_s_own_words(found: CheatsAudit) -> None:
    told = {(trial.cheat.name, trial.command): trial.happened for trial in found.trials}

    assert told["honest", "check"].startswith("passes all ")
    assert told["honest", "bench"].startswith("measured")
    assert told["wrong_zeros", "check"].startswith("caught in ")
    assert told["lazy_instance", "check"].startswith("caught in ")
    assert told["wrong_zeros", "bench"].startswith("refused: ")


@pytest.mark.slow
def test_what_is_computed_ahead_shows_in_calls_of_microseconds_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "WORKLOAD", "documents/one-sentence")

    rows = audit_module._timed(["honest_formula", "precomputed_untimed"], dict(NO_MACHINE_S))

    assert rows["honest_formula"].status == "measured"
    row = rows["precomputed_untimed"]
    assert row.status == "refused" or row.detail.startswith(NOT_BOUNDED), row


@pytest.mark.slow
def test_what_is_left_out_of_a_sample_shows_where_a_call_makes_one_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "WORKLOAD", "ladder/2k")  # as slow as other machines may be: some 20 ms a call

    rows = audit_module._timed(["honest_formula", "calls_batched"], dict(NO_MACHINE_S))

    assert rows["honest_formula"].status == "measured"
    row = rows["calls_batched"]
    assert row.status == "refused" or row.detail.startswith(NOT_BOUNDED), row


@pytest.mark.parametrize(("held", "status"), [(True, 0), (False, 1)])
def test_the_page_is_written_and_the_status_says_whether_anything_got_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], held: bool, status: int
) -> None:
    monkeypatch.setattr(audit_module, "audit", lambda progress: an_audit(held))

    assert auditing.audit_cheats(tmp_path / "results") == status

    said = capsys.readouterr().out
    assert f"2 submissions, {0 if held else 1} with another verdict than they must get" in said
    assert (tmp_path / "results" / "cheats.md").read_text().startswith("# Submissions that try to fool the suite")


@pytest.mark.parametrize("walls", [(), tuple(wall.name for wall in MECHANISMS)])
def test_what_writes_behind_the_suite_s_back_writes_where_no_wall_keeps_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walls: tuple[str, ...]
) -> None:
    home = tmp_path / f"{PREFIX}{audit_module.HOME}1"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setattr(started, "wanted", lambda: walls)

    session = Session(CheckRequest(("plain/small",), audit_module.DTYPES, isolate=True))
    (writer,) = (cheat for cheat in catalogue() if cheat.name == "writes_results")
    outcomes = audit_module._checked(writer, session, print)

    assert [outcome.status for outcome in outcomes] == ["passed"]
    assert any(home.rglob("*forged*")) == (not protects(Protection.FILES, set(walls) & set(detected())))
