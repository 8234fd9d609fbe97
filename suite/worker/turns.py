"""Short questions over a worker's channel, in turns and as bytes alone: inputs arrive, and are answered at once.

The process says that it is ready, and what it was asked for a moment before. Then the inputs are sent, and its answer
begins with a byte and a length.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Protocol

EXCHANGE = "exchange"
"""The verb of a request that is answered in turns, before the response to it."""
CALL, IDLE, END = b"c", b"i", b"e"
"""What a turn is for: an answer, all that belongs to one but the call, or nothing: there are no more turns."""
READY, REPLIED, FAILED = b"r", b"a", b"x"
"""What the process says: inputs may be sent; here is the answer; there is none, as the response says."""
HEAD = struct.Struct(">cQ")
"""One of these, and the bytes of the answer."""

Turn = tuple[bytes, Sequence[memoryview]]
"""What a turn is for, and the inputs."""
TurnResult = tuple[float, bytearray]
"""Seconds that a turn took, from the inputs to the whole answer, and the bytes of it."""


class TurnHandler(Protocol):
    """What answers inputs that arrive as bytes."""

    def warm(self) -> None:
        """Prepare for inputs."""

    def input_buffers(self) -> Sequence[memoryview]:
        """Where the bytes of the inputs belong."""

    def reply(self, called: bool) -> Sequence[memoryview]:
        """The bytes of the answer to them; of the last one where it is not `called`."""


def take_turns(channel: socket.socket, answering: TurnHandler) -> None:
    """Answer until there are no more turns. What goes wrong is said, and raised."""
    while (turn := channel.recv(1)) in (CALL, IDLE):
        try:
            answering.warm()
            channel.sendall(HEAD.pack(READY, 0))
            _fill(channel, answering.input_buffers())
            reply = answering.reply(turn == CALL)
        except BaseException:
            channel.sendall(HEAD.pack(FAILED, 0))
            raise
        parts = [memoryview(HEAD.pack(REPLIED, sum(part.nbytes for part in reply))), *reply]
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
        fill(channel, place)


def fill(channel: socket.socket, place: memoryview) -> None:
    """Read until this memory is full. EOFError where the channel ends before."""
    filled = 0
    while filled < place.nbytes:
        if not (count := channel.recv_into(place[filled:])):
            raise EOFError
        filled += count
