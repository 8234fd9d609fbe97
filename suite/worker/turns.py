"""Turns: short exchanges of raw bytes over a worker's channel, for calls that the parent times.

In a turn the parent sends its kind, the process reports that it is ready, the parent sends the inputs, and the process
replies with a byte, a length and the bytes of the output.
"""

import socket
import struct
from collections.abc import Callable, Iterator, Sequence

EXCHANGE = "exchange"
"""The verb of a request that has turns before its response."""
CALL, IDLE, END = b"c", b"i", b"e"
"""Kinds of a turn: a call, everything except the call, and the end of the turns."""
READY, REPLIED, FAILED = b"r", b"a", b"x"
"""The process's messages: inputs may be sent, a reply follows, or the turn failed, for the reason in the response."""
HEAD = struct.Struct(">cQ")
"""One of these messages, and the number of bytes of the reply."""

Turn = tuple[bytes, Sequence[memoryview]]
"""The kind of a turn, and the inputs."""
TurnResult = tuple[float, bytearray]
"""Seconds from sending the inputs to the complete reply, and the bytes of the reply."""


def take_turns(
    channel: socket.socket,
    warm: Callable[[], None],
    input_buffers: Sequence[memoryview],
    replied: Callable[[bool], Sequence[memoryview]],
) -> None:
    """Reply until the end of the turns. An exception is reported to the parent, and propagates.

    After `warm` the bytes of the inputs are read into the buffers; `replied` returns the bytes of the reply to them, or
    of the last reply unless it is given True.
    """
    while (turn := channel.recv(1)) in (CALL, IDLE):
        try:
            warm()
            channel.sendall(HEAD.pack(READY, 0))
            _fill(channel, input_buffers)
            reply = replied(turn == CALL)
        except BaseException:
            channel.sendall(HEAD.pack(FAILED, 0))
            raise
        parts = [memoryview(HEAD.pack(REPLIED, sum(part.nbytes for part in reply))), *reply]
        for rest in beyond(channel.sendmsg(parts), parts):
            channel.sendall(rest)
    if turn != END:
        raise EOFError


def beyond(count: int, parts: Sequence[memoryview]) -> Iterator[memoryview]:
    """The parts after their first `count` bytes."""
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
    """Read until this buffer is full. EOFError if the channel ends first."""
    filled = 0
    while filled < place.nbytes:
        if not (count := channel.recv_into(place[filled:])):
            raise EOFError
        filled += count
