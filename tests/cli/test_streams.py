"""Standard streams that are closed, and encodings without the characters of the messages: no verdict changes."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commanded import Write, environment

from attnsuite.cli import streams

MASKLESS = "import torch\ndef attention(query, key, value):\n    return torch.softmax(query @ key.mT, -1) @ value\n"


def attnsuite(redirected: str, *arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = f"{shlex.join((sys.executable, '-m', 'attnsuite', *arguments))} {redirected}"
    surroundings = environment() | variables
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=surroundings, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_closed_standard_error_is_replaced(tmp_path: Path) -> None:
    done = attnsuite("2>&-", "list", "--contract", "add_norm", folder=tmp_path)

    assert done.returncode == 0
    assert done.stdout.startswith("add_norm: ")


@pytest.mark.parametrize("redirected", ["2>&-", ">&-", ">&- 2>&-"])
def test_a_refusal_keeps_its_status_where_streams_are_closed(redirected: str, tmp_path: Path) -> None:
    done = attnsuite(redirected, "check", "loops", "--dtype", "nope", folder=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("attnsuite: unknown dtype" if "2>" not in redirected else "")


@pytest.mark.slow
def test_a_check_prints_its_lines_where_standard_error_is_closed(tmp_path: Path, write: Write) -> None:
    write("mine.py", MASKLESS)
    asked = ("check", "mine.py", "--dtype", "float32", "--case", "bool_mask")

    done = attnsuite("2>&-", *asked, folder=tmp_path)
    in_ascii = attnsuite("", *asked, folder=tmp_path, PYTHONIOENCODING="ascii")

    assert done.returncode == in_ascii.returncode
    assert " × declined: takes no attn_mask\n" in done.stdout
    assert " x declined: takes no attn_mask\n" in in_ascii.stdout
    assert "Traceback" not in done.stderr + in_ascii.stderr


def test_an_encoding_without_a_character_gets_a_substitute(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))

    streams.prepare()
    print("2 × wrong: 1/√width … ∞", flush=True)

    assert written.getvalue() == rb"2 x wrong: 1/sqrt width ... \u221e" + b"\n"


def test_a_stream_that_is_none_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)

    streams.prepare()

    with sys.stderr:
        assert not sys.stderr.isatty()
        print("this goes to /dev/null", file=sys.stderr)
