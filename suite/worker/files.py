"""Which files a worker's answers depend on: what it imported, mapped or opened, if that can be known at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attnsuite.worker.children import own_folder

Files = list[str]
COMPILERS = frozenset({"cc", "c++", "gcc", "g++", "clang", "clang++", "ptxas", "ldconfig"})
"""Programs that libraries start on sources which they have generated. Of what others read nothing is known."""
STARTS = frozenset({"os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"})
"""Audit events of programs and processes of which nothing more is known."""
COMPILED = "/__pycache__/"
"""Where Python keeps what it has compiled, beside the source that is named as the module's file."""
ELSEWHERE = ("/proc/", "/sys/", "/dev/", "/run/")
"""No files: what stands there is made by the system when it is read."""

MOST_FILES = 50_000
"""Files that a process can name: with PyTorch, JAX and onnxruntime it has some 6,000."""


class Watch:
    """Files of this process, from now on. It sees what Python opens and starts, which costs a little at each."""

    def __init__(self) -> None:
        self._opened = set[str]()
        self._unknown = False
        sys.addaudithook(self._see)

    def files(self) -> Files | None:
        """The files by absolute path; None where a program was started that may have read others."""
        return None if self._unknown else in_process(self._opened)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, str | bytes) and _reads(mode, flags):
                self._opened.add(str(Path(os.fsdecode(path)).absolute()))
        elif event in STARTS or (event == "subprocess.Popen" and not _known(arguments[0], arguments[1])):
            self._unknown = True


def in_process(opened: Sequence[str] | set[str] = ()) -> Files:
    """What this process has imported and mapped, and what it has `opened`, without its own temporary files."""
    own = tuple(f"{os.path.realpath(folder)}/" for folder in _temporary())
    found = {*opened, *_imported(), *_mapped()}
    return sorted(path for path in found if not path.startswith((*ELSEWHERE, *own)) and COMPILED not in path)


def answering(watched: bool) -> Callable[[], Files | None]:
    """What answers the question for files. One that is not `watched` says what it imported and mapped alone."""
    return Watch().files if watched else in_process


def files_from(answer: Any) -> Files | None:
    """What a process said that its files are, each once; None for anything that no system has as their paths."""
    if not isinstance(answer, list) or len(answer) > MOST_FILES or not all(map(_may_exist, answer)):
        return None
    return sorted({path for path in answer if not path.startswith(ELSEWHERE)})


def _may_exist(path: Any) -> bool:
    if not isinstance(path, str) or not Path(path).is_absolute() or "\0" in path:
        return False
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _imported() -> Iterator[str]:
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield str(Path(file).absolute())


def _mapped() -> Iterator[str]:
    """Libraries and other files in memory, where the system says so (Linux)."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        _, _, path = line.partition("/")
        if path and not path.endswith(" (deleted)"):
            yield f"/{path}"


def _temporary() -> list[str]:
    """The folder that a walled worker has for itself: it begins empty, so what is in it was made from other files."""
    return [own] if (own := own_folder()) else []


def _reads(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return "r" in mode
    return isinstance(flags, int) and flags & os.O_ACCMODE == os.O_RDONLY


def _known(program: Any, arguments: Any) -> bool:
    """Whether a program is a compiler whose files all lie where nobody edits them."""
    words = [str(word) for word in arguments] if isinstance(arguments, list | tuple) else []
    if Path(str(program)).name not in COMPILERS or not words:
        return False
    own = tuple(os.path.realpath(folder) for folder in (*_temporary(), sys.prefix, sys.base_prefix, "/usr"))
    there = (os.path.realpath(word) for word in words if Path(word).is_file())
    return all(path.startswith(own) for path in there)
