"""Standard streams that are closed, and encodings without the characters of the messages: no verdict changes."""

import io
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commanded import environment

from attnsuite.__main__ import prepare_streams


def attnsuite(redirected: str, *arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = f"{shlex.join((sys.executable, '-m', 'attnsuite', *arguments))} {redirected}"
    surroundings = environment() | variables
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=surroundings, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_closed_standard_error_is_replaced(tmp_path: Path) -> None:
    done = attnsuite("2>&-", "list", "--contract", "add_norm", folder=tmp_path)

    assert done.returncode == 0
    assert done.stdout.startswith("The contract `add_norm`")


def test_an_encoding_without_a_character_gets_a_substitute(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))

    prepare_streams()
    print("2 × failed: 1/√width … ∞", flush=True)

    assert written.getvalue() == rb"2 x failed: 1/sqrt width ... \u221e" + b"\n"
