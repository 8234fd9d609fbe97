"""What tests of several subcommands use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commanded import Run, environment


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
