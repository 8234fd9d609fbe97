"""Does what a hostile submission may try, one thing for each mode."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

OPEN = list(Path("/proc/self/fd").iterdir()) if Path("/proc/self/fd").exists() else []


def attention(query: Any, key: Any, value: Any, *, mode: str = "", place: str = "", process: int = 0) -> Any:
    """The value; or what the mode says, whose findings are raised as a RuntimeError; or gigabytes."""
    if mode == "reply_much":  # more than a reply may have, and less than a process may take
        return torch.empty(300 << 20, dtype=torch.uint8)
    if mode:
        raise RuntimeError(repr(MODES[mode](place, process)))
    return value.clone()


def daemon(place: str, process: int) -> Any:
    """Leave a process behind that nobody in the session knows of, without any environment."""
    command = [sys.executable, "-S", "-c", f"import time; MARK = {place!r}; time.sleep(600)"]
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            os.execve(command[0], command, {})
        os._exit(0)
    time.sleep(0.3)
    return "left"


def kill(place: str, process: int) -> Any:
    """Signal a process, and everybody."""
    found = []
    for target in (process, -1) if os.getpid() < 10 else (process,):
        try:
            os.kill(target, 0)
            found.append("reached")
        except OSError as error:
            found.append(type(error).__name__)
    return found


def read(place: str, process: int) -> Any:
    """Read another process's memory, and its environment."""
    found = []
    for file in ("mem", "environ"):
        try:
            with Path(f"/proc/{process}/{file}").open("rb") as opened:
                opened.read(1) if file == "environ" else opened.seek(0)
            found.append("read")
        except OSError as error:
            found.append(type(error).__name__)
    return found


def write(place: str, process: int) -> Any:
    """Write a file, make one, cut one short, remove one."""
    folder, found = Path(place), []
    for act in (
        lambda: (folder / "there").write_text("mine"),
        lambda: (folder / "new").write_text("mine"),
        lambda: os.truncate(folder / "there", 0),
        lambda: (folder / "there").unlink(),
        lambda: (folder / "there").rename(folder / "moved"),
    ):
        try:
            act()
            found.append("done")
        except OSError as error:
            found.append(type(error).__name__)
    return found


def connect(place: str, process: int) -> Any:
    """Open a socket and speak."""
    found = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            with socket.socket(socket.AF_INET, kind) as opened:
                opened.connect(("127.0.0.1", process))
                opened.send(b"hello")
            found.append("sent")
        except OSError as error:
            found.append(type(error).__name__)
    return found


def print_much(place: str, process: int) -> Any:
    """Print without end, control characters among it."""
    while True:
        os.write(1, b"\x1b[31m spam \xed\xb2\x80" * 65536)


def take_memory(place: str, process: int) -> Any:
    """Take memory that no limit of a single process counts: children's."""
    for _ in range(40):
        if os.fork() == 0:
            held = torch.ones(32 << 20, dtype=torch.uint8)
            time.sleep(600)
            del held
    time.sleep(600)


def take_own_memory(place: str, process: int) -> Any:
    """Take memory without end."""
    held = []
    while True:
        held.append(torch.ones(64 << 20, dtype=torch.uint8))


def sleep(place: str, process: int) -> Any:
    """Never answer."""
    time.sleep(600)


def _channel() -> int:
    """The first socket that was open at import."""
    for each in sorted(OPEN, key=lambda of: int(of.name)):
        with contextlib.suppress(OSError):
            if str(each.readlink()).startswith("socket:"):
                return int(each.name)
    raise RuntimeError("no socket")


def close(place: str, process: int) -> Any:
    """Close the channel to the suite, whichever it is."""
    os.closerange(3, 256)
    time.sleep(600)


def _forged() -> bytes:
    header = b'{"sizes": [], "message": {"id": 1, "answer": []}}'
    return len(header).to_bytes(8, "big") + header


def reply_early(place: str, process: int) -> Any:
    """Write a reply of its own making to the channel, and go on."""
    os.write(_channel(), bytes(16) + _forged())
    time.sleep(600)


def reply_later(place: str, process: int) -> Any:
    """Have a process of its own write a reply once this one has been answered."""
    if os.fork() == 0:
        time.sleep(1)
        os.write(_channel(), bytes(16) + _forged())
        time.sleep(600)
    return "soon"


def leave(place: str, process: int) -> Any:
    """End at once, as if nothing were wrong."""
    os._exit(0)


def abort(place: str, process: int) -> Any:
    """End by a signal that it sends itself."""
    os.kill(os.getpid(), signal.SIGABRT)


def move(place: str, process: int) -> Any:
    """Go to another folder."""
    os.chdir("/")
    return Path.cwd().name


def where(place: str, process: int) -> Any:
    """Say where it is, and where temporary files go."""
    return str(Path.cwd()), os.environ.get("TMPDIR", "")


def remove_room(place: str, process: int) -> Any:
    """Remove the folder that it is in, having filled it with what is hard to remove."""
    locked = Path("locked")
    locked.mkdir()
    (locked / "file").write_text("x")
    Path("out").symlink_to("/")
    locked.chmod(0)
    shutil.rmtree(Path.cwd(), ignore_errors=True)
    return "removed"


def replace_functions(place: str, process: int) -> Any:
    """Replace what the worker may use, so that inputs seem unchanged, then change them."""
    import hashlib
    import json
    import pickle
    import struct

    class Same:
        def __init__(self, *_: Any) -> None:
            pass

        def update(self, *_: Any) -> None:
            pass

        def digest(self) -> bytes:
            return bytes(32)

    hashlib.sha256 = Same  # type: ignore[assignment,misc]
    json.loads = pickle.dumps = struct.unpack = lambda *_, **__: None  # type: ignore[assignment]
    return "replaced"


def start_others(place: str, process: int) -> Any:
    """Use what an honest kernel uses: a temporary file, a child, shared memory, random bytes."""
    import multiprocessing
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        said = subprocess.run(["/bin/echo", "hello"], capture_output=True, text=True, check=True).stdout
        queue = multiprocessing.get_context("fork").SimpleQueue()
        queue.put(os.urandom(2) != b"")
        return said, queue.get(), Path(file.name).parent == Path.cwd(), len(gc.get_objects()) > 0


MODES = {
    each.__name__: each
    for each in (
        *(daemon, kill, read, write, connect, print_much, take_memory, take_own_memory, sleep, close, reply_early),
        *(reply_later, leave, abort, move, where, remove_room, replace_functions, start_others),
    )
}
