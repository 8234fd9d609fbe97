"""What copies of a process find is what it would have found by itself, in the same order, whatever becomes of them."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import pytest

from attnsuite.conformance.diagnosis import side_by_side as room
from attnsuite.conformance.diagnosis.side_by_side import FEWEST, side_by_side
from attnsuite.worker.copies import Copy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies are made by fork, on Linux alone")
MANY = range(4 * FEWEST + 3)


def test_results_come_in_order_and_others_computed_their_share() -> None:
    here = os.getpid()

    found = side_by_side(lambda number: (number**2, os.getpid()), MANY, 3)

    assert [square for square, _ in found] == [number**2 for number in MANY]
    assert len({process for _, process in found}) == 3
    assert [process == here for _, process in found] == [number % 3 == 0 for number in MANY]


@pytest.mark.parametrize(("count", "processes"), [(2 * FEWEST - 1, 2), (0, 2), (4 * FEWEST, 1)])
def test_few_are_computed_here(count: int, processes: int) -> None:
    assert set(side_by_side(lambda _: os.getpid(), range(count), processes)) <= {os.getpid()}


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raising() -> None:
    raise ValueError("only in a copy")


def ended() -> None:
    os._exit(0)


def hanging() -> None:
    time.sleep(600)


@pytest.mark.parametrize("fate", [killed, raising, ended, hanging])
def test_what_a_copy_does_not_tell_is_found_here(fate, monkeypatch: pytest.MonkeyPatch, capfd) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(room, "GRACE", 0.5)
    here = os.getpid()

    def work(number: int) -> int:
        if os.getpid() != here and number == MANY[-2]:
            fate()
        return number + 1

    assert side_by_side(work, MANY, 2) == [number + 1 for number in MANY]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_is_raised_here_ends_the_copies(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    here, begun, begin = os.getpid(), list[Copy](), room._copy

    def noted(work: Any, share: Any) -> Copy:
        begun.append(begin(work, share))
        return begun[-1]

    monkeypatch.setattr(room, "_copy", noted)

    def work(number: int) -> None:
        if os.getpid() != here:
            time.sleep(600)
        if number == 2:
            raise error

    with pytest.raises(error):
        side_by_side(work, MANY, 2)
    assert [copy.process.is_alive() for copy in begun] == [False]
