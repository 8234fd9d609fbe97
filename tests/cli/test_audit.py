"""`attnsuite audit` of one contract, for all of them take many minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnsuite.cli import auditing


@pytest.mark.slow
def test_one_contract_is_audited_and_no_page_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert auditing.audit(tmp_path, 1, "positional_encoding") == 0

    said = capsys.readouterr().out
    assert "positional_encoding: mutation score: " in said
    assert "false accusations: 0" in said
    assert list(tmp_path.iterdir()) == []
