"""Queries of other processes, which may end at any time."""

import psutil


def words_of(process: psutil.Process) -> list[str]:
    """Its command line; empty for a process that ended, reaped or not."""
    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return words


def is_over(number: int) -> bool:
    """Whether the process does not exist, or is a zombie."""
    try:
        return bool(psutil.Process(number).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def below(number: int) -> list[psutil.Process]:
    """Its running child processes."""
    try:
        children = psutil.Process(number).children()
    except psutil.NoSuchProcess:
        return []
    return [each for each in children if not is_over(each.pid)]


def is_served(number: int) -> bool:
    """Whether a fork server of this process has a child."""
    return any("attnsuite.worker.forkserver" in str(words_of(each)) and below(each.pid) for each in below(number))
