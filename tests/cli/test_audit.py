"""`attnsuite audit` of one contract: an audit of all takes many minutes."""

from pathlib import Path

import pytest
from commanded import Cli


@pytest.mark.slow
def test_one_contract_is_audited_and_no_page_written(cli: Cli, tmp_path: Path) -> None:
    result = cli("audit", "--contract", "positional_encoding", "--jobs", "1")

    assert result.status == 0
    assert "positional_encoding: mutation score: " in result.out
    assert "correct variants: 3, tests that they fail: 0" in result.out
    assert not list(tmp_path.rglob("audit*"))
