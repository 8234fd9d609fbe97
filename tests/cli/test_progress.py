"""Without a terminal, a long check prints lines about its progress."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite.cli import progress as heartbeat

StatusOf = Callable[..., object]
SLOW = """\
import time


def attention(query, key, value):
    time.sleep(0.1)
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
"""
PLAIN = ("--case", "plain", "--dtype", "float32")


@pytest.fixture
def slow(tmp_path: Path, status_of: StatusOf, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel with ten calls a second; lines are printed early."""
    monkeypatch.setattr(heartbeat, "FIRST", (0.01, 0.7))
    (tmp_path / "slow.py").write_text(SLOW)
    return "slow.py"


@pytest.mark.parametrize("options", [(), ("--jobs", "2")])
def test_a_slow_check_says_how_far_it_is_and_what_takes_the_time(
    options: tuple[str, ...], slow: str, status_of: StatusOf, capsys: pytest.CaptureFixture[str]
) -> None:
    status = status_of("check", slow, *PLAIN, *options)

    lines = capsys.readouterr().err.splitlines()
    assert status == 0
    assert re.fullmatch(r"0 of \d+ tests done after 0 s(, now attention/slow)?", lines[0])
    assert all(re.fullmatch(r"\d+ of \d+ tests done after 1 s(, now attention/slow)?", line) for line in lines[1:])
