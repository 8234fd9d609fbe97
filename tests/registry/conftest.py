"""Folders of implementations that tests of the registry look into."""

import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest
from targets import SUBMISSIONS


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A folder with two contracts and a name that is in both."""
    return Path(copytree(SUBMISSIONS / "room", tmp_path / "room"))


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """tmp_path on sys.path; what was imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]
