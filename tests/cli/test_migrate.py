"""`attnsuite migrate`: results of the former layout, from the command line."""

import json
import sys

import pytest
from builders import RUN, outcome

from attnsuite.__main__ import main
from attnsuite.results.store import load, rows, runs


def said(monkeypatch, capsys, *arguments):
    """What the command line prints when it ends well."""
    monkeypatch.setattr(sys, "argv", ["attnsuite", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    return capsys.readouterr().out


def test_a_former_folder_is_migrated_and_reported(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "out" / RUN.machine.name
    folder.mkdir(parents=True)
    (folder / "runs.jsonl").write_text(json.dumps({**runs.open_row(RUN), "format": 1}) + "\n")
    (folder / "conformance.jsonl").write_text(json.dumps({"run": RUN.id, **rows.lean(outcome("a"))}) + "\n")
    monkeypatch.chdir(tmp_path)

    migrated = said(monkeypatch, capsys, "migrate", "--results", "out")

    assert migrated.startswith(f"out/{RUN.machine.name}: 1 outcomes and 0 measurements migrated, ")
    assert load("out")["case"].tolist() == ["a"]
    assert "conformance.md" in said(monkeypatch, capsys, "report", "--results", "out")
    assert "has today's layout already" in said(monkeypatch, capsys, "migrate", "--results", "out")
