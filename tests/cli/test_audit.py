"""`attnsuite audit` of one contract, for all of them take many minutes."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnsuite.cli.declared.audit import Audit

from attnsuite.cli import auditing
from attnsuite.model import UsageError


@pytest.mark.slow
def test_one_contract_is_audited_and_no_page_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert auditing.audit(tmp_path, 1, "positional_encoding") == 0

    said = capsys.readouterr().out
    assert "positional_encoding: mutation score: " in said
    assert "false accusations: 0" in said
    assert list(tmp_path.iterdir()) == []


def test_a_contract_is_named_as_an_argument_or_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    audited: list[object] = []
    monkeypatch.setattr(auditing, "audit", lambda *given: (audited.append(given[2]), 0)[1])

    assert [Audit("bleu").run(), Audit(contract="bleu").run(), Audit("bleu", "bleu").run()] == [0, 0, 0]
    assert audited == ["bleu"] * 3
    with pytest.raises(UsageError, match="CONTRACT is bleu and --contract is attention: name one contract"):
        Audit("bleu", "attention").run()


def test_an_unknown_contract_is_named_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown contract 'nonsense'; there are: add_norm, "):
        auditing.audit(tmp_path, 1, "nonsense")


def test_a_number_of_other_seeds_is_not_negative(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--seeds is the number of other seeds that are asked, 0 or more, not -1"):
        auditing.audit(tmp_path, 1, "positional_encoding", -1)


@pytest.mark.slow
def test_other_seeds_are_asked_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert auditing.audit(tmp_path, 1, "positional_encoding", 1) == 0

    assert "positional_encoding: other seeds: 1, accusations with what they draw: 0 in " in capsys.readouterr().out
