"""The process of one implementation: it imports the implementation, then serves requests until its parent ends."""

import os
import resource
import select
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from attnsuite.model import UsageError
from attnsuite.registry import Declaration, Loaded, Missing, load
from attnsuite.registry.loading import in_one_line
from attnsuite.worker import calling
from attnsuite.worker.compiling import announce
from attnsuite.worker.messages import TOKEN, ImportReport, ImportStatus, Request, Response, Setup, pack, unpack
from attnsuite.worker.recording import lost
from attnsuite.worker.turns import EXCHANGE, fill

RUN_CALLS = "run_calls"
"""The verb that every worker supports: calls of the implementation. Other verbs are those of the service that the
parent names; `EXCHANGE` gets the channel."""
TOKEN_LIMIT = 5.0
"""Seconds until the token of a reply arrives: the parent sends it together with the request."""

Function = Callable[..., Any]
Service = Callable[[str, Mapping[str, Any]], Any]
"""Carries out a verb with its arguments: data and tensors in, data and tensors out."""


def main(descriptor: int, life: int, sandboxed: bool) -> None:
    """Serve the channel on this file descriptor. `life` is a pipe that the parent keeps open."""
    if sandboxed:  # the supervisor has it; no process inside may open the other end, which would keep it open
        os.close(life)
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # shows what was printed before a crash
    threading.Thread(target=_leave_with_the_parent, args=(descriptor,), daemon=True).start()
    try:
        serve(channel)
    except (EOFError, ConnectionError):  # the parent has no more requests
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # while the error still holds the channel open: else the watching thread would print last


def serve(channel: socket.socket) -> None:
    """Import the implementation that the first message names, then reply to the other messages."""
    setup: Setup = _receive(channel, Setup)
    begin = _service_factory(setup.service) if setup.service else None  # before the import, which may replace modules
    sys.path.extend(entry for entry in setup.path if entry not in sys.path)
    function, report = _imported(setup.declaration)
    _send(channel, report)
    if function is None:
        return
    service = begin(function, setup.device) if begin else None
    while True:
        request: Request = _receive(channel, Request)
        response = Response(request.id)
        try:
            if request.verb == RUN_CALLS:
                response.result = calling.serve(function, setup.device, request.arguments)
            elif service is None:
                raise ValueError(f"unknown verb {request.verb!r}; this worker supports {RUN_CALLS!r} alone")
            else:
                more = {"channel": channel} if request.verb == EXCHANGE else {}
                response.result = service(request.verb, {**request.arguments, **more})
        except BaseException:  # not the implementation's: its exceptions are results
            response.failed = traceback.format_exc()
        response.lost = lost(setup.device)
        _send(channel, response)


def _service_factory(service: str) -> Callable[[Function, str], Service]:
    """The factory that `module:function` returns: it makes a service for an implementation and its device."""
    module, _, name = service.partition(":")
    return getattr(import_module(module), name)()  # type: ignore[no-any-return]


def _imported(declaration: Declaration) -> tuple[Function | None, ImportReport]:
    """The function, or None if its import fails, and the report of the import."""
    try:
        loaded = load(declaration, alone=True)
    except UsageError as error:
        return None, ImportReport(ImportStatus.UNUSABLE, str(error), declaration)
    except KeyboardInterrupt as error:  # raised by the implementation: Ctrl-C does not reach a session of its own
        return None, ImportReport(ImportStatus.BROKEN, in_one_line(error), declaration)
    if isinstance(loaded, Loaded):
        return loaded.function, ImportReport(ImportStatus.READY, "", loaded.declaration)
    status = ImportStatus.MISSING if isinstance(loaded, Missing) else ImportStatus.BROKEN
    return None, ImportReport(status, loaded.reason, loaded.declaration)


def _receive(channel: socket.socket, kind: Any) -> Any:
    return unpack(lambda buffer: fill(channel, buffer), kind)


def _send(channel: socket.socket, message: Any) -> None:
    """Reply under the token that the parent sent after its message.

    The token stays in the channel while the submission runs, so that no object in this process's memory holds it.
    """
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    token = channel.recv(TOKEN, socket.MSG_WAITALL) if poll.poll(TOKEN_LIMIT * 1000) else b""
    if not token:
        raise EOFError
    for part in (memoryview(token), *pack(message)):
        channel.sendall(part)


def _leave_with_the_parent(descriptor: int) -> None:
    """End this process when an end of the channel is closed, even if the implementation never returns."""
    poll = select.poll()
    poll.register(descriptor, 0)  # hang-ups are always reported
    while not (events := poll.poll(1000)):  # an endless poll would keep a channel open that the implementation closed
        announce()
    if events[0][1] & select.POLLNVAL:
        os.write(2, b"the channel to the suite was closed\n")
        os._exit(1)
    os._exit(0)
