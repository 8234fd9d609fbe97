"""The command line as tests run it: in this process with `cli`, or in a process of its own with `attnsuite`."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commanded import Cli, Result, Run, environment


@pytest.fixture
def cli(status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs the command in this process, in tmp_path."""

    def run(*words: str) -> Result:
        capsys.readouterr()
        status = status_of(*words)
        printed = capsys.readouterr()
        return Result(status, printed.out, printed.err)

    return run


@pytest.fixture
def attnsuite(tmp_path: Path) -> Run:
    """Runs the command in tmp_path, in a process of its own."""

    def run(*arguments: str | Path, path: Path | str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "attnsuite", *map(str, arguments)]
        surroundings = environment(path) if path else environment()
        return subprocess.run(
            command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=120, check=False
        )

    return run


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))
