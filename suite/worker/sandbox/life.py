"""A pipe that the parent holds open as long as it lives."""

from __future__ import annotations

import fcntl
import os
import select
import signal
from contextlib import suppress


def die_with_the_parent(life: int) -> None:
    """Have the system kill this process and all of its group when the parent is gone (Linux).

    A suspended process could not notice that by itself. The parent holds one end of the pipe `life`; when it is closed,
    the system sends a signal to the owner of the other end, and only for pipes may that owner be a whole group.
    """
    os.set_inheritable(life, False)
    with suppress(OSError, AttributeError):
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    with suppress(AttributeError):
        poll = select.poll()
        poll.register(life, 0)  # hang-ups are always reported
        if poll.poll(0):  # it was gone before, and of that no signal comes
            os.killpg(os.getpgrp(), signal.SIGKILL)
