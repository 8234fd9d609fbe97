"""Inputs that are handed over in turns: what becomes of a process that fails, dies, hangs or lies meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import torch
from workers import LINUX

from attnsuite import registry
from attnsuite.benchmark import connection
from attnsuite.benchmark.entry import Answered
from attnsuite.benchmark.measure.messages import Failed, Job, Prepared
from attnsuite.benchmark.participant import Participant
from attnsuite.cases.tensors import SECRET_NUMBERS
from attnsuite.contracts import contract
from attnsuite.worker.turns import beyond, take_turns

JOB = Job("attention", "documents/one-sentence", "float32", "forward")
WORKLOAD = contract(JOB.contract).workload(JOB.workload)
NUMBERS = SECRET_NUMBERS[77:82]
SUBMISSION = """
import os, sys, time
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

def attention(query, key, value):
    depth = 1
    frames = []
    while True:
        try:
            frames.append(sys._getframe(depth).f_code.co_name)
        except ValueError:
            break
        depth += 1
    if "take_turns" in frames and "warm" not in frames:
        {mood}
    return sdpa(query, key, value)
"""

Start = Callable[..., Participant]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Makes a participant of a submission that does this where it is called in a turn."""
    with ExitStack() as stack:

        def started(mood: str = "pass", time_limit: float = 60.0, *, trusted: bool = True) -> Participant:
            (tmp_path / "kernel.py").write_text(SUBMISSION.format(mood=mood))
            (declaration,) = registry.find([str(tmp_path / "kernel.py")])
            participant = Participant(
                declaration, threads=1, memory_limit=2**33, time_limit=time_limit, trusted=trusted
            )
            stack.callback(participant.close)
            assert isinstance(participant.prepare(JOB), Prepared)
            return participant

        yield started


@LINUX
@pytest.mark.parametrize("trusted", [True, False])
def test_each_answer_has_its_time_and_one_comes_along(start: Start, trusted: bool) -> None:
    participant = start("time.sleep(0.02)", trusted=trusted)

    answer = participant.answers(NUMBERS, NUMBERS[3], warm=2)

    assert isinstance(answer, Answered), answer
    assert (len(answer.seconds), len(answer.idle)) == (5, 5)
    assert min(answer.seconds) >= 0.02
    assert 0 < min(answer.idle) < 0.02
    rows = list(range(6))
    found = {"output": answer.rows["output"]}
    assert WORKLOAD.verdict("float32", "forward", NUMBERS[3], {"output": rows}, found).status == "passed"
    assert WORKLOAD.verdict("float32", "forward", NUMBERS[2], {"output": rows}, found).status == "wrong"


@LINUX
def test_a_function_in_this_process_answers_likewise() -> None:
    (declaration,) = registry.find(["attention/matmul"])
    participant = Participant(declaration, threads=1, function=torch.nn.functional.scaled_dot_product_attention)
    participant.prepare(JOB)

    answer = participant.answers(NUMBERS, NUMBERS[0], warm=1)

    assert isinstance(answer, Answered)
    found = {"output": answer.rows["output"]}
    rows = {"output": list(range(6))}
    assert WORKLOAD.verdict("float32", "forward", NUMBERS[0], rows, found).status == "passed"


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize(
    ("mood", "status", "detail"),
    [
        ("raise ValueError('not this one')", "raised", "ValueError: not this one"),
        ("os._exit(3)", "died", "exit status 3"),
        ("os.kill(os.getpid(), 11)", "died", "SIGSEGV"),
        ("time.sleep(600)", "hung", "no result within 2 s; --time-limit 4 allows more"),
        ("return 5", "raised", "TypeError: output is a int, should be a Tensor"),
        ("return torch.ones(3)", "", ""),
        ("print('x' * (80 << 20))", "died", "printed more than 64 MiB"),
        ("{each.send(b'z' * 9) for each in sockets()}", "died", "answered garbage: a reply out of turn"),
    ],
)
def test_what_goes_wrong_in_a_turn_is_an_answer(start: Start, mood: str, status: str, detail: str) -> None:
    if "sockets()" in mood:
        mood = mood.replace(
            "sockets()",
            "[__import__('socket').socket(fileno=os.dup(int(n))) for n in os.listdir('/proc/self/fd')"
            " if os.path.islink(f'/proc/self/fd/{n}') and os.readlink(f'/proc/self/fd/{n}').startswith('socket')]",
        )
    participant = start(mood, time_limit=2.0 if "sleep" in mood else 60.0)

    answer = participant.answers(NUMBERS, NUMBERS[0], warm=1)

    if not status:  # of other sizes: whoever verifies it says so
        assert isinstance(answer, Answered)
        assert answer.rows["output"].shape == (1, 3)
        return
    assert isinstance(answer, Failed)
    assert (answer.status, detail in answer.detail) == (status, True), answer.detail
    again = participant.prepare(JOB)
    assert isinstance(again, Prepared), "the next question gets an answer"


PATCHED = """
import sys, time
from torch.nn.functional import scaled_dot_product_attention as attention

if handed := sys.modules.get("attnsuite.benchmark.measure.handed"):
    {patch}
"""


def participant_of(tmp_path: Path, patch: str, **settings: Any) -> Participant:
    """One whose submission replaces something of the suite's in its process."""
    (tmp_path / "kernel.py").write_text(PATCHED.format(patch=patch))
    (declaration,) = registry.find([f"{tmp_path / 'kernel.py'}:attention"])
    return Participant(declaration, threads=1, memory_limit=2**33, trusted=True, **settings)


@LINUX
def test_no_answer_may_be_larger_than_this_process_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REPLY_SHARE", 2**13)
    large = "handed.Handed.answer = lambda self, called: [memoryview(bytearray(2**21))]"
    participant = participant_of(tmp_path, large)
    with closing(participant):
        assert isinstance(participant.prepare(JOB), Prepared)
        answer = participant.answers(NUMBERS, NUMBERS[0], warm=1)

    assert isinstance(answer, Failed)
    assert (answer.status, answer.detail) == ("died", "died: replied with more than 0.00098 GiB")


@pytest.mark.slow
@LINUX
def test_all_turns_together_have_a_limit_of_time(tmp_path: Path) -> None:
    """Ten turns of less than the limit for one."""
    slow = "handed.Handed.warm = lambda self: time.sleep(1)"
    with closing(participant_of(tmp_path, slow, time_limit=2.0)) as participant:
        assert isinstance(participant.prepare(JOB), Prepared)
        answer = participant.answers(NUMBERS, NUMBERS[0], warm=1)

    assert isinstance(answer, Failed)
    assert answer.status == "hung"


def test_messages_in_parts_go_on_where_they_were_cut() -> None:
    parts = [memoryview(b"abc"), memoryview(b""), memoryview(b"defg")]

    assert [b"".join(beyond(count, parts)) for count in range(8)] == [b"abcdefg"[count:] for count in range(8)]


def test_inputs_that_come_in_pieces_are_read_whole() -> None:
    class Kept:
        def __init__(self) -> None:
            self.places = [bytearray(3), bytearray(4)]

        def warm(self) -> None: ...

        def room(self) -> list[memoryview]:
            return [memoryview(each) for each in self.places]

        def answer(self, called: bool) -> list[memoryview]:
            return [memoryview(b"called" if called else b"idle")]

    ours, theirs = socket.socketpair()
    kept = Kept()
    with ours, theirs:
        for piece in (b"c", b"ab", b"cde", b"fg", b"e"):
            ours.send(piece)
        take_turns(theirs, kept)
        assert ours.recv(1 << 10) == b"ra\x00\x00\x00\x00\x00\x00\x00\x06called"
    assert kept.places == [bytearray(b"abc"), bytearray(b"defg")]


def test_a_channel_that_ends_ends_the_turns() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs, pytest.raises(EOFError):
        take_turns(theirs, None)  # type: ignore[arg-type]
