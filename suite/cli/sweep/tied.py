"""Run a command that ends with whom it was started for: `python tied.py PIPE|- WORD…`.

A launcher that is killed can stop nothing any more, so the system has to: on Linux, a process is killed when its parent
ends, and a group of processes when the other end of the named pipe is closed, which only the launcher holds open.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""The option of prctl(2) that names the signal of a parent's end."""


def die_with_the_parent() -> None:
    """Have the system kill this process, and what it executes, when its parent ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def die_with_who_holds(pipe: str) -> None:
    """Have the system kill this process and all of its group when nobody holds the pipe open any more (Linux).

    It has a group of its own from here on. Where the pipe is closed already, it ends at once.
    """
    file = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_inheritable(file, True)  # it stays open in what is executed
    os.setpgid(0, 0)
    if sys.platform == "linux":
        fcntl.fcntl(file, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(file, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    try:
        closed = os.read(file, 1) == b""
    except BlockingIOError:
        closed = False
    if closed:
        sys.exit(f"{pipe}: who started this is gone")


def main() -> None:
    """Tie this process, and become the command."""
    pipe, *words = sys.argv[1:]
    die_with_the_parent()
    if pipe != "-":
        die_with_who_holds(pipe)
    os.execvp(words[0], words)


if __name__ == "__main__":
    main()
