"""The parent's end of a worker: a process, a private channel to it, and the last that it printed."""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import time
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

from attnsuite.worker.sandbox.descent import below, signal_all
from attnsuite.worker.sandbox.ends import said_of
from attnsuite.worker.sandbox.memory import taken
from attnsuite.worker.started import finish, signal_group, start
from attnsuite.worker.turns import ANSWERED, END, FAILED, HEAD, READY, Taken, beyond
from attnsuite.worker.wire import STORAGE_LIMIT, TURN, Garbage, TooLarge, pack, unpack

PRINTED_LIMIT = 8_000
"""How many bytes of what the process printed are kept: the last ones."""
OUT_OF_TURN = "a reply out of turn: something else than the worker wrote to its channel"
PRINTED_MOST = 1 << 26
"""Bytes that a process may print while it answers one question."""
LOOK_EVERY = 0.25
"""Seconds between two looks at the memory that a process takes while it answers."""
REPLY_SHARE = 4
"""A reply may have this part of the memory that its process may take: the suite holds it beside what is due."""
PIECE = 1 << 20
"""Bytes that are received at once at most."""
PARTS = 64
"""Parts of a message that are sent at once at most; systems take a thousand."""


class TooMuch(Exception):
    """The process takes more than it may of something; the message says of what."""


class Process:
    """A process that runs `attnsuite.worker`, in a session of its own and marked, so that all it starts dies with it.

    It is bound to these `cores`, where any are given. A `fresh` one is an interpreter of its own, as is one of
    another `python`; others are forked, where the system can, from one that has imported what they share: the worker,
    and the module of their `service`.
    A `walled` one has a guard, whose number `pid` is, and a folder for itself; in each of its processes `memory` bytes
    may be taken, and as many in all of them together, which is looked at where it is `watched`. 0 is no limit.

    `send` and `receive` raise EOFError where the process is gone or all is `over`, and TimeoutError at the deadline,
    which is a time of `time.monotonic`.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        cores: Collection[int] = (),
        *,
        service: str = "",
        fresh: bool = False,
        walled: bool = False,
        memory: int = 0,
        watched: bool = True,
        python: str = "",
        over: Event | None = None,
    ) -> None:
        begun = start(environment, cores, service, fresh, walled, memory, python)
        self._started, channel, output = begun.started, begun.channel, begun.output
        self._walled, self._memory, self._watched, self._looked = walled, memory, watched, 0.0
        self._room, self._over = begun.room, over
        channel.setblocking(False)
        os.set_blocking(output, False)
        self._channel = channel
        self._output = output
        self._printed, self._much = bytearray(), 0
        self._turns: list[bytes] = []
        """The numbers of the replies that are due, the next one first."""
        self._poll = select.poll()
        self._poll.register(output, select.POLLIN)
        self._waits_for = 0
        """The event of the channel that is waited for."""
        # Also where nobody calls `end`: nothing that the suite starts may outlive it.
        self._finish = weakref.finalize(self, finish, begun)

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def printed(self) -> str:
        return self._printed.decode(errors="replace").strip()

    def forget(self) -> None:
        """Drop what was printed so far: it has nothing to do with the next question."""
        self._keep_printed()
        self._printed.clear()
        self._much = 0

    def send(self, message: Any, deadline: float, replies: int = 1) -> None:
        """Send a message, and after it the numbers under which so many replies to it will come.

        Raises `Garbage` where something came before anything was asked.
        """
        self._nothing_more()
        self._send(pack(message), deadline)
        self.allow(replies, deadline)

    def allow(self, replies: int, deadline: float) -> None:
        """Send the numbers under which so many replies will come."""
        turns = [secrets.token_bytes(TURN) for _ in range(replies)]
        self._turns += turns
        self._send(map(memoryview, turns), deadline)

    def is_silent(self, until: float) -> bool:
        """Wait for the beginning of a reply until this time; whether there was none."""
        try:
            self._until(select.POLLIN, until)
        except TimeoutError:
            return True
        return False

    def receive(self, deadline: float) -> Any:
        self._wait_for_turn(deadline)
        try:
            found = unpack(lambda buffer: self._read_into(buffer, deadline), self._most)
        except TooLarge as error:
            raise TooMuch(f"replied with more than {error}") from None
        if not self._turns:
            self._nothing_more()
        self._look_at_limits()  # who answers at once was never waited for
        return found

    def take_turn(self, turn: bytes, inputs: Sequence[memoryview], deadline: float, most: int) -> Taken | None:
        """What the process answers to inputs in one turn, and the seconds from sending them until all of it was here.

        None where it fails: its reply to the question says why. `TooMuch` for more than `most` bytes.
        """
        ready, head = bytearray(1), bytearray(HEAD.size)
        self._send([memoryview(turn)], deadline)
        self._read_into(memoryview(ready), deadline)
        if ready != READY:
            return self._failed(ready + self._read_rest(HEAD.size - 1, deadline))
        began = time.perf_counter()
        self._send(inputs, deadline)
        self._read_into(memoryview(head), deadline)
        said, size = HEAD.unpack(head)
        if said != ANSWERED:
            return self._failed(head)
        if size > most:
            raise TooMuch(f"replied with more than {most / (1 << 30):.2g} GiB")
        answer = bytearray(size)
        self._read_into(memoryview(answer), deadline)
        return time.perf_counter() - began, answer

    def end_turns(self, deadline: float) -> None:
        """Say that there are no more turns."""
        self._send([memoryview(END)], deadline)

    @property
    def _most(self) -> int:
        """The most bytes of tensors in a reply."""
        return self._memory // REPLY_SHARE or STORAGE_LIMIT

    def _read_rest(self, size: int, deadline: float) -> bytes:
        rest = bytearray(size)
        self._read_into(memoryview(rest), deadline)
        return bytes(rest)

    @staticmethod
    def _failed(head: bytes | bytearray) -> None:
        """Without effect where the process says that it failed; `Garbage` where it says something else."""
        if head != HEAD.pack(FAILED, 0):
            raise Garbage(OUT_OF_TURN)

    def _send(self, parts: Iterable[memoryview], deadline: float) -> None:
        left = list(parts)
        while left:
            try:
                sent = self._channel.sendmsg(left[:PARTS])
            except BlockingIOError:
                self._until(select.POLLOUT, deadline)
                continue
            except (BrokenPipeError, ConnectionResetError) as error:
                raise EOFError from error
            left = list(beyond(sent, left))

    def _read_into(self, buffer: memoryview, deadline: float) -> None:
        filled = 0
        while filled < buffer.nbytes:
            try:
                count = self._channel.recv_into(buffer[filled : filled + PIECE])
            except BlockingIOError:
                self._until(select.POLLIN, deadline)
                continue
            except ConnectionResetError as error:
                raise EOFError from error
            if count == 0:
                raise EOFError
            filled += count

    def _wait_for_turn(self, deadline: float) -> None:
        """Read the number that the next reply begins with. `Garbage` as soon as it cannot be that."""
        due, came = self._turns.pop(0) if self._turns else b"", b""
        while len(came) < TURN:
            self._until(select.POLLIN, deadline)
            with suppress(BlockingIOError):
                try:
                    said = self._channel.recv(TURN - len(came))
                except ConnectionResetError as error:
                    raise EOFError from error
                if not said:
                    raise EOFError
                came += said
                if not due.startswith(came):
                    raise Garbage(OUT_OF_TURN)

    def _nothing_more(self) -> None:
        """Raise `Garbage` where more has come than was asked for."""
        with suppress(BlockingIOError, ConnectionResetError):
            if not self._turns and self._channel.recv(1, socket.MSG_PEEK):
                raise Garbage(OUT_OF_TURN)

    def suspend(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def move(self, cores: Collection[int]) -> None:
        """Bind the process and all that it has started to these cores, where the system allows."""
        if not cores or not hasattr(os, "sched_setaffinity"):
            return
        for _ in range(3):  # again, for what has been started meanwhile
            for thread in self._threads():
                with suppress(OSError):  # it has ended
                    os.sched_setaffinity(thread, cores)

    def _threads(self) -> Iterator[int]:
        """The threads of every process of the session, and of those that have left it, where they are found."""
        left = set(below(self.pid))
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if int(process.name) in left or os.getsid(int(process.name)) == self.pid:
                    yield from (int(thread.name) for thread in (process / "task").iterdir())

    def end(self, grace: float = 0.0) -> str:
        """Kill what still runs, and say how the process ended: `SIGSEGV`, `exit status 3`, `closed its channel`."""
        if not self._finish.alive:
            return "ended"
        waits_until = time.monotonic() + (0.0 if self._is_over else grace)
        while not self._started.exited() and time.monotonic() < waits_until:
            self._keep_printed()
            time.sleep(0.01)
        exited = self._started.exited()
        if not self._walled:  # else its guard has to find who is left, before it ends itself
            self._signal(signal.SIGKILL)
        self._keep_printed()
        self._finish()
        if not exited:
            return "closed its channel"
        status = self._started.reap(0.0)
        if status is None:  # whoever forked it has ended before
            return "nobody is left who knows how"
        return said_of(status)

    def _until(self, event: int, deadline: float) -> None:
        """Wait until the channel is ready, reading what the process prints meanwhile."""
        channel = self._channel.fileno()
        if event != self._waits_for:
            self._poll.register(channel, event)
            self._waits_for = event
        exited = False
        while True:
            remaining = deadline - time.monotonic()
            ready = {descriptor for descriptor, _ in self._poll.poll(min(max(remaining, 0), 0.25) * 1000)}
            if self._output in ready:
                self._keep_printed()
            if channel in ready:
                return
            self._look_at_limits()
            if remaining <= 0:
                raise TimeoutError
            if exited or self._is_over:  # has it exited, a child of its own holds the channel open
                raise EOFError
            exited = self._started.exited()

    @property
    def _is_over(self) -> bool:
        return self._over is not None and self._over.is_set()

    def _look_at_limits(self) -> None:
        if self._much > PRINTED_MOST:
            raise TooMuch(f"printed more than {PRINTED_MOST >> 20} MiB")
        if self._memory and self._watched and time.monotonic() - self._looked > LOOK_EVERY:
            self._looked = time.monotonic()
            folder = self._room.folder if self._room else Path("/")
            if taken(self.pid, folder, self._memory) > self._memory:
                raise TooMuch(f"took more than {self._memory / (1 << 30):.1f} GiB of memory")

    def _keep_printed(self) -> None:
        for _ in range(64):  # not for ever: it may print faster than we read
            try:
                text = os.read(self._output, PIECE)
            except BlockingIOError:
                return
            if not text:
                with suppress(KeyError):
                    self._poll.unregister(self._output)
                return
            self._printed += text
            self._much += len(text)
            del self._printed[:-PRINTED_LIMIT]

    def _signal(self, number: int) -> None:
        if self._finish.alive:
            signal_group(self._started, number)
            if self._walled and not self._started.reaped:
                signal_all(below(self.pid), number)  # those that have left the group, too
