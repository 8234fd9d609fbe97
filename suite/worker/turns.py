"""Short questions over a worker's channel, in turns and as bytes alone: inputs come, and are answered at once.

The process says that it is ready, and what it was asked for a moment before. Then the inputs are sent, and what it
answers begins with a byte and its length.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Protocol

EXCHANGE = "exchange"
"""The verb of a question that is answered in turns, before the reply to it."""
CALL, IDLE, END = b"c", b"i", b"e"
"""What a turn is for: an answer, all that belongs to one but the call, or nothing: there are no more turns."""
READY = b"r"
"""What the process says when inputs may be sent."""
ANSWERED, FAILED = b"a", b"x"
"""What its answer begins with, before its length: here it is; there is none, as the reply to the question says."""
HEAD = struct.Struct(">cQ")
"""How both are written."""


Turn = tuple[bytes, Sequence[memoryview]]
"""What a turn is for, and the inputs."""
Taken = tuple[float, bytearray]
"""Seconds that a turn took, from the inputs to the whole answer, and the bytes of it."""


class Answering(Protocol):
    """What answers inputs that come as bytes."""

    def warm(self) -> None:
        """Make what is ready for inputs so."""

    def room(self) -> Sequence[memoryview]:
        """Where the bytes of the inputs belong."""

    def answer(self, called: bool) -> Sequence[memoryview]:
        """The bytes of the answer to them; of the last one where it is not `called`."""


def take_turns(channel: socket.socket, answering: Answering) -> None:
    """Answer until there are no more turns. What goes wrong is said, and raised."""
    while (turn := channel.recv(1)) in (CALL, IDLE):
        try:
            answering.warm()
            channel.sendall(READY)
            _fill(channel, answering.room())
            found = answering.answer(turn == CALL)
        except BaseException:
            channel.sendall(HEAD.pack(FAILED, 0))
            raise
        parts = [memoryview(HEAD.pack(ANSWERED, sum(each.nbytes for each in found))), *found]
        for rest in beyond(channel.sendmsg(parts), parts):
            channel.sendall(rest)
    if turn != END:
        raise EOFError


def beyond(count: int, parts: Sequence[memoryview]) -> Iterator[memoryview]:
    """What follows the first `count` bytes of these."""
    for part in parts:
        if count < part.nbytes:
            yield part[count:]
        count = max(0, count - part.nbytes)


def _fill(channel: socket.socket, places: Sequence[memoryview]) -> None:
    count = channel.recvmsg_into(places)[0]
    if not count:
        raise EOFError
    for place in beyond(count, places):
        filled = 0
        while filled < place.nbytes:
            if not (more := channel.recv_into(place[filled:])):
                raise EOFError
            filled += more
