"""What tests ask of processes that are not theirs, and that may end while they are asked."""

from __future__ import annotations

import psutil


def words_of(process: psutil.Process) -> list[str]:
    """Its command line; empty where it has ended, also where nobody has reaped it yet."""
    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return words


def is_over(number: int) -> bool:
    """Whether there is no such process, or one that has ended and waits to be reaped."""
    try:
        return bool(psutil.Process(number).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def below(number: int) -> list[psutil.Process]:
    """The processes that it has started and that run yet."""
    try:
        children = psutil.Process(number).children()
    except psutil.NoSuchProcess:
        return []
    return [each for each in children if not is_over(each.pid)]


def is_served(number: int) -> bool:
    """Whether a server of this process has forked somebody."""
    return any("attnsuite.worker.forkserver" in str(words_of(each)) and below(each.pid) for each in below(number))
