"""The process of one implementation: imports it, then answers questions until its parent is gone."""

from __future__ import annotations

import os
import resource
import select
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any

from attnsuite.model import UsageError
from attnsuite.registry import Declaration, Loaded, Missing, load
from attnsuite.registry.loading import in_one_line
from attnsuite.worker import asking
from attnsuite.worker.children import make_importable
from attnsuite.worker.compiling import announcing
from attnsuite.worker.context import lost
from attnsuite.worker.files import answering
from attnsuite.worker.greeting import Greeting, Import, greeting
from attnsuite.worker.sandbox.life import die_with_the_parent
from attnsuite.worker.turns import EXCHANGE
from attnsuite.worker.wire import TURN, as_data, pack, unpack

ASK, FILES = "ask", "files"
"""The verbs that every worker answers: calls as data; and which files it depends on, None where that is not known.
Others are those of the service that the parent names, `EXCHANGE` among them, which is given the channel."""

TURN_LIMIT = 5.0
"""Seconds in which the number of a reply has come after the question: it was sent together with it."""

Function = Callable[..., Any]
Service = Callable[[str, Mapping[str, Any]], Any]
"""Answers a verb with its arguments: data and tensors in, data and tensors out."""


def main(descriptor: int, life: int, walls: Collection[str] = ()) -> None:
    """Serve the channel on this file descriptor, behind these walls. `life` is a pipe that the parent holds open."""
    if walls:  # the guard keeps it, and nobody within may open the other end, which would keep it from closing
        os.close(life)
    else:
        die_with_the_parent(life)
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what was said before a crash is worth reading
    threading.Thread(target=_leave_with_the_parent, args=(descriptor,), daemon=True).start()
    try:
        serve(channel, walls)
    except (EOFError, ConnectionError):  # the parent has no more questions
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # here, while the error holds the channel open: the thread that watches it would speak last


def serve(channel: socket.socket, walls: Collection[str] = ()) -> None:
    """Say which walls stand, import the implementation that the first message names, and answer the other messages."""
    hello = _receive(channel)
    _send(channel, list(walls))
    begin = named(hello["service"]) if hello["service"] else None
    files = answering(watched=begin is None)  # whoever is timed is not watched
    service_of = begin() if begin else None  # before a submission is imported, which may replace what it finds
    sys.path.extend(entry for entry in hello["path"] if entry not in sys.path)
    declared, plug = hello["declaration"], hello["declaration"]["plug"]
    declaration = Declaration(**declared | {"plug": Declaration(**plug) if plug else None})
    make_importable(declaration)
    function, said = _imported(declaration)
    _send(channel, as_data(said))
    if function is None:
        return
    service = service_of(function, hello["device"]) if service_of else _no_service
    while True:
        question = _receive(channel)
        verb, arguments, answer = question["verb"], question["arguments"], {"id": question["id"]}
        try:
            if verb == FILES:
                answer["answer"] = files()
            elif verb == ASK:
                answer["answer"] = asking.serve(function, hello["device"], arguments)
            elif verb == EXCHANGE:
                answer["answer"] = service(verb, {**arguments, "channel": channel})
            else:
                answer["answer"] = service(verb, arguments)
        except BaseException:  # not the implementation's: its own are answers
            answer["failed"] = traceback.format_exc()
        answer["lost"] = lost(hello["device"])
        _send(channel, answer)


def named(service: str) -> Callable[[], Callable[[Function, str], Service]]:
    """The function that begins a service, `module:function`: called before the implementation is imported, it returns
    what makes the service of the function and its device.
    """
    module, _, name = service.partition(":")
    found: Callable[[], Callable[[Function, str], Service]] = getattr(import_module(module), name)
    return found


def _no_service(verb: str, arguments: Mapping[str, Any]) -> Any:
    raise ValueError(f"unknown verb {verb!r}; this worker answers {ASK!r} alone")


def _imported(declaration: Declaration) -> tuple[Function | None, Greeting]:
    """The function, where it can be imported, and what is said of that."""
    try:
        loaded = load(declaration, alone=True)
    except UsageError as error:
        return None, greeting(Import.UNUSABLE, str(error), declaration)
    except KeyboardInterrupt as error:  # raised by the implementation: nobody interrupts a session of its own
        return None, greeting(Import.BROKEN, in_one_line(error), declaration)
    if isinstance(loaded, Loaded):
        return loaded.function, greeting(Import.READY, "", loaded.declaration)
    ended = Import.MISSING if isinstance(loaded, Missing) else Import.BROKEN
    return None, greeting(ended, loaded.reason, loaded.declaration)


def _receive(channel: socket.socket) -> Any:
    def read_into(buffer: memoryview) -> None:
        filled = 0
        while filled < buffer.nbytes:
            count = channel.recv_into(buffer[filled:])
            if count == 0:
                raise EOFError
            filled += count

    return unpack(read_into)


def _send(channel: socket.socket, message: Any) -> None:
    """Answer, under the number that the parent has sent after its message.

    That was left in the channel while somebody else's code ran, so that nothing in this process's memory told it.
    """
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    turn = channel.recv(TURN, socket.MSG_WAITALL) if poll.poll(TURN_LIMIT * 1000) else b""
    if not turn:
        raise EOFError
    for part in (memoryview(turn), *pack(message)):
        channel.sendall(part)


def _leave_with_the_parent(descriptor: int) -> None:
    """End this process when either end of the channel is closed, even if the implementation never returns."""
    poll, announce_compilers = select.poll(), announcing()
    poll.register(descriptor, 0)  # hang-ups are always reported
    while not (events := poll.poll(1000)):  # a poll without end would keep open what the implementation has closed
        announce_compilers()
    if events[0][1] & select.POLLNVAL:
        os.write(2, b"the channel to the suite was closed\n")
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
