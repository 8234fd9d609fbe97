"""Folders of implementations that tests of the registry look into."""

import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest
from targets import SUBMISSIONS

from attnsuite.registry import discovery


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the implementations that ship, with two contracts and a name that is in both."""
    home = Path(copytree(SUBMISSIONS / "room", tmp_path / "room"))
    monkeypatch.setattr(discovery, "HOME", home)
    return home


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """tmp_path on sys.path; what was imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]
