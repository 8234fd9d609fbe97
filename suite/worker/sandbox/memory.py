"""The memory of a sandboxed worker: that of all of its processes, and that of files in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from attnsuite.worker.sandbox.namespaces import SHARED_MEMORY
from attnsuite.worker.sandbox.processes import descendants

PAGE = os.sysconf("SC_PAGE_SIZE")
PROCESSES = Path("/proc")


def taken(supervisor: int, folder: Path, enough: int) -> int:
    """Bytes of memory of all descendants of a process together with their files in memory: in the folder, and shared
    ones.

    Shared pages count once, if the sum would else exceed `enough`.
    """
    processes = list(descendants(supervisor))
    files = _in_folders(supervisor, (folder, SHARED_MEMORY)) + _without_folder(processes)
    most = sum(map(_resident, processes)) + files
    if most <= enough:
        return most
    shares = [_share(process) for process in processes]
    return sum(whole for whole, _ in shares) + max(0, files - sum(shared for _, shared in shares))


def _resident(process: int) -> int:
    """Bytes of a process in memory, shared pages included."""
    with suppress(OSError):  # it has ended
        return int((PROCESSES / str(process) / "statm").read_text().split()[1]) * PAGE
    return 0


def _share(process: int) -> tuple[int, int]:
    """Its proportional share of memory in bytes, and the part of that which may belong to files.

    For a process that forbids inspection (PR_SET_DUMPABLE), all pages count as its own.
    """
    try:
        lines = (PROCESSES / str(process) / "smaps_rollup").read_text().splitlines()
        sizes = {words[0]: int(words[1]) << 10 for words in map(str.split, lines) if words[0].startswith("Pss")}
        return sizes["Pss:"], sizes.get("Pss_Shmem:", 0)
    except (OSError, KeyError):
        return _resident(process), 0


def _in_folders(supervisor: int, folders: Iterable[Path]) -> int:
    """Bytes in those of these folders that are in memory in the supervisor's mount namespace."""
    total = 0
    for folder in folders:
        with suppress(OSError):  # it has ended, or the folder does not exist
            mounted = PROCESSES / str(supervisor) / "root" / folder.relative_to("/")
            if mounted.stat().st_dev != folder.stat().st_dev:
                system = os.statvfs(mounted)
                total += (system.f_blocks - system.f_bfree) * system.f_frsize
    return total


def _without_folder(processes: Iterable[int]) -> int:
    """Bytes in open files of these processes that are in memory and in no folder (`memfd_create`)."""
    sizes: dict[tuple[int, int], int] = {}
    for process in processes:
        with suppress(OSError):  # it has ended, or forbids inspection
            for link in (PROCESSES / str(process) / "fd").iterdir():
                with suppress(OSError):  # it was closed
                    if str(link.readlink()).startswith("/memfd:"):
                        file = link.stat()
                        sizes[file.st_dev, file.st_ino] = file.st_blocks * 512
    return sum(sizes.values())
