"""Inputs that are handed over in turns: what becomes of a process that fails, dies, hangs or lies meanwhile."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from workers import LIMIT, MISBEHAVES, PROGRAMS

from attnsuite.worker.turns import CALL, IDLE, beyond, take_turns
from attnsuite.worker.worker import Crash, Timeout, Worker

INPUTS = [memoryview(b"abc"), memoryview(b"defgh")]
TURNS = [(kind, INPUTS) for _ in range(5) for kind in (CALL, IDLE)]
Exchange = Callable[..., Any]


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    """What comes of these turns, where the submission misbehaves so in each call."""
    with ExitStack() as stack:

        def exchanged(mode: str = "", time_limit: float = LIMIT, most: int = 1 << 20, **more: Any) -> Any:
            around = {"PYTHONPATH": str(PROGRAMS)}
            worker = Worker(MISBEHAVES, time_limit=time_limit, service="echoes:begin", environment=around)
            stack.enter_context(worker)
            result = worker.exchange({"mode": mode, **more}, TURNS, 2, most)
            again = worker.exchange({}, TURNS[:2], 0, most)
            assert again[1] == "done", "the next exchange is answered"
            return result

        yield exchanged


def test_each_turn_has_its_time_and_one_answer_comes_along(exchange: Exchange) -> None:
    taken, reply = exchange()

    assert reply == "done"
    assert all(0 < seconds < LIMIT for seconds, _ in taken)
    assert [bytes(content) for _, content in taken] == [b"", b"", b"abcdefgh", *[b""] * 7]


FAILURES = {
    "unknown": "the suite's own code failed in the worker; the last it printed: KeyError: 'unknown'",
    "exits": "exit status 3",
    "segmentation_fault": "SIGSEGV; the last it printed: these are my last words",
    "print_much": "printed more than 64 MiB",
    "reply_early": "invalid reply: a reply out of turn",
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", FAILURES)
def test_what_goes_wrong_in_a_turn_is_an_answer(exchange: Exchange, mode: str) -> None:
    crash = exchange(mode)
    assert isinstance(crash, Crash)
    assert str(crash).startswith(f"crashed: {FAILURES[mode]}")


def test_a_turn_without_an_answer_ends_at_the_time_limit(exchange: Exchange) -> None:
    assert exchange("sleep", time_limit=2.0) == Timeout(2.0)


def test_no_answer_may_be_larger_than_this_process_can_hold(exchange: Exchange) -> None:
    crash = exchange(larger=True)
    assert str(crash) == "crashed: replied with more than 0.00098 GiB"


@pytest.mark.slow
def test_all_turns_together_have_a_limit_of_time(exchange: Exchange) -> None:
    """Five calls of less than the limit for one."""
    before = time.monotonic()
    assert isinstance(exchange("dawdles", time_limit=2.0), Timeout)
    assert time.monotonic() - before < LIMIT


def test_messages_in_parts_go_on_where_they_were_cut() -> None:
    parts = [memoryview(b"abc"), memoryview(b""), memoryview(b"defg")]

    assert [b"".join(beyond(count, parts)) for count in range(8)] == [b"abcdefg"[count:] for count in range(8)]


def test_inputs_that_come_in_pieces_are_read_whole() -> None:
    def reply(called: bool) -> list[memoryview]:
        return [memoryview(b"called" if called else b"idle")]

    ours, theirs = socket.socketpair()
    places = [bytearray(3), bytearray(4)]
    with ours, theirs:
        for piece in (b"c", b"ab", b"cde", b"fg", b"e"):
            ours.send(piece)
        take_turns(theirs, list, [memoryview(place) for place in places], reply)
        assert ours.recv(1 << 10) == b"r" + bytes(8) + b"a" + bytes([0, 0, 0, 0, 0, 0, 0, 6]) + b"called"
    assert places == [bytearray(b"abc"), bytearray(b"defg")]


def test_a_channel_that_ends_ends_the_turns() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs, pytest.raises(EOFError):
        take_turns(theirs, list, [], lambda called: [])
