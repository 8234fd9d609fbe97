"""Bars of several trainings on a terminal, and the lines that are said meanwhile."""

from __future__ import annotations

import io
import sys

import pytest

from attnsuite.cli.epochs import Epochs

pyte = pytest.importorskip("pyte")


class Terminal(io.StringIO):
    """Standard output or error on a screen."""

    def isatty(self) -> bool:
        return True

    @property
    def screen(self) -> list[str]:
        """What is to be seen at the end: lines that are not empty."""
        screen = pyte.Screen(100, 30)
        pyte.Stream(screen).feed(self.getvalue().replace("\n", "\r\n"))
        return [line.rstrip() for line in screen.display if line.strip()]


def terminal(monkeypatch: pytest.MonkeyPatch, stdout: io.StringIO | None = None) -> Terminal:
    """Standard error, from now on, and standard output where it is nothing else."""
    found = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(sys, "stdout", stdout or found)
    return found


def train(shown: Epochs, names: str) -> None:
    watches = {name: shown.begins(name) for name in names}
    for epoch in range(3):
        for watch in watches.values():
            watch(epoch, 2)
    for name in names:
        shown.ended(name, f"{name} has ended")


def test_bars_leave_all_lines_and_nothing_of_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    shows = terminal(monkeypatch)
    with Epochs() as shown:
        train(shown, "abcd")
        shown.say("interrupted", error=True)

    assert shows.screen == ["a has ended", "b has ended", "c has ended", "d has ended", "interrupted"]


def test_bars_are_there_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    shows = terminal(monkeypatch)
    with Epochs() as shown:
        first, second = shown.begins("first"), shown.begins("second")
        first(0, 2)
        second(1, 2)
        seen = shows.screen

    assert [line.split()[0] for line in seen] == ["second:", "first", "second"]
    assert seen[0] == "second: goes on after epoch 1 of 2, from its checkpoint"
    assert seen[1].split()[-2].endswith("0/2")
    assert seen[2].split()[-2].endswith("1/2")


def test_lines_go_to_a_file_where_only_bars_go_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    shows = terminal(monkeypatch, file)
    with Epochs() as shown:
        train(shown, "ab")

    assert file.getvalue() == "a has ended\nb has ended\n"
    assert shows.screen == []


def test_without_a_terminal_there_are_lines_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with Epochs() as shown:
        train(shown, "ab")

    assert capsys.readouterr() == ("a has ended\nb has ended\n", "")
