"""What a walled worker takes of memory, in all of its processes and in files in memory that no process shows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from attnsuite.worker.sandbox.descent import below
from attnsuite.worker.sandbox.mounts import SHARED_MEMORY

PAGE = os.sysconf("SC_PAGE_SIZE")
PROCESSES = Path("/proc")


def taken(guard: int, folder: Path, enough: int) -> int:
    """Bytes of memory that all below this guard take together, and the files in its own memory: in the folder, and what
    its processes share. What they share is counted once where that may matter.
    """
    processes = list(below(guard))
    files = _in_files(guard, (folder, SHARED_MEMORY)) + _without_folder(processes)
    most = resident(processes) + files
    if most <= enough:
        return most
    shares = [_share(each) for each in processes]
    return sum(whole for whole, _ in shares) + max(0, files - sum(shared for _, shared in shares))


def resident(processes: Iterable[int]) -> int:
    """Bytes that these processes take, pages that they share counted for each."""
    return sum(_resident(each) for each in processes)


def _resident(process: int) -> int:
    with suppress(OSError):  # it has ended
        return int((PROCESSES / str(process) / "statm").read_text().split()[1]) * PAGE
    return 0


def _share(process: int) -> tuple[int, int]:
    """Bytes that it takes, where each page is divided among those that have it; and those of them that may be files'.

    Who forbids to look (PR_SET_DUMPABLE) has all pages counted as its own.
    """
    try:
        lines = (PROCESSES / str(process) / "smaps_rollup").read_text().splitlines()
        found = {words[0]: int(words[1]) << 10 for words in map(str.split, lines) if words[0].startswith("Pss")}
        return found["Pss:"], found.get("Pss_Shmem:", 0)
    except (OSError, KeyError):
        return _resident(process), 0


def _in_files(guard: int, folders: Iterable[Path]) -> int:
    """Bytes in these folders where the guard has them in memory of its own, in its mount namespace."""
    found = 0
    for each in folders:
        with suppress(OSError):  # it has ended, or there is no such folder
            theirs = PROCESSES / str(guard) / "root" / each.relative_to("/")
            if theirs.stat().st_dev != each.stat().st_dev:
                held = os.statvfs(theirs)
                found += (held.f_blocks - held.f_bfree) * held.f_frsize
    return found


def _without_folder(processes: Iterable[int]) -> int:
    """Bytes in files that are in memory and in no folder (`memfd_create`), and that these processes have open."""
    found: dict[tuple[int, int], int] = {}
    for each in processes:
        with suppress(OSError):  # it has ended, or forbids to look
            for link in (PROCESSES / str(each) / "fd").iterdir():
                with suppress(OSError):  # it was closed
                    if str(link.readlink()).startswith("/memfd:"):
                        of = link.stat()
                        found[of.st_dev, of.st_ino] = of.st_blocks * 512
    return sum(found.values())
