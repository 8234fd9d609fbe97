"""Does what a hostile or broken submission may do, one thing for each mode."""

import contextlib
import ctypes
import errno
import fcntl
import gc
import mmap
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

HERE = os.getpid()
OPEN = list(Path("/proc/self/fd").iterdir()) if Path("/proc/self/fd").exists() else []


def attention(
    query: Any, key: Any, value: Any, *, attn_mask: Any = None, mode: str = "", place: str = "", process: int = 0
) -> Any:
    """The value; or what the mode says, whose findings are raised as a RuntimeError; or gigabytes."""
    if mode == "reply_much":  # more than a reply may have, and less than a process may take
        return torch.empty(300 << 20, dtype=torch.uint8)
    findings = globals()[mode](place, process) if mode else None
    if findings is not None:
        raise RuntimeError(repr(findings))
    return value.clone()


def segmentation_fault(place: str, process: int) -> Any:
    print("these are my last words")
    ctypes.string_at(0)


def exits(place: str, process: int) -> Any:
    os._exit(3)


def kills_itself(place: str, process: int) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def loops(place: str, process: int) -> Any:
    while True:
        pass


def forks(place: str, process: int) -> Any:
    """Leave a child."""
    child = subprocess.Popen(["sleep", "600"])
    Path(place).write_text(str(child.pid))
    os._exit(4)


def forks_and_holds(place: str, process: int) -> Any:
    """Leave a child that holds the channel to the suite open."""
    if os.fork() == 0:
        time.sleep(600)
    os._exit(5)


def escapes(place: str, process: int) -> Any:
    """Start a process in a session of its own, whose parent is gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(place).write_text(str(os.getpid()))
            os.closerange(0, 64)
            time.sleep(600)
        os._exit(0)
    while not (Path(place).exists() and Path(place).read_text()):
        time.sleep(0.01)


def prints_garbage(place: str, process: int) -> Any:
    for stream in (1, 2):
        os.write(stream, b"\x00{}\n" * 100)
    print("{}" * 200_000)


def reads_stdin(place: str, process: int) -> Any:
    return sys.stdin.read()


def interrupts(place: str, process: int) -> Any:
    raise KeyboardInterrupt("mine")


def quits(place: str, process: int) -> Any:
    sys.exit(7)


def recurses(place: str, process: int) -> Any:
    recurses(place, process)


def starts_a_thread_that_exits(place: str, process: int) -> Any:
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()


def environment(place: str, process: int) -> Any:
    return os.environ[place]


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
    """Signal a process."""
    return _tried(lambda: os.kill(process, 0))


def read(place: str, process: int) -> Any:
    """Read another process's memory, and its environment."""
    return _tried(
        lambda: Path(f"/proc/{process}/mem").open("rb").close(), lambda: Path(f"/proc/{process}/environ").read_bytes()
    )


def write(place: str, process: int) -> Any:
    """Write a file, make one, cut one short, move one, remove one."""
    there = Path(place) / "there"
    return _tried(
        lambda: there.write_text("mine"),
        lambda: there.with_name("new").write_text("mine"),
        lambda: os.truncate(there, 0),
        lambda: there.rename(there.with_name("moved")),
        lambda: there.unlink(),
    )


def _tried(*acts: Callable[[], Any]) -> list[str]:
    """How each ends: `done`, or the error."""
    found = []
    for act in acts:
        try:
            act()
            found.append("done")
        except OSError as error:
            found.append(errno.errorcode[error.errno or 0])
    return found


def _call(number: int, *arguments: Any) -> Any:
    """A system call by its number on x86_64; a child that it starts ends at once."""
    answer = ctypes.CDLL(None, use_errno=True).syscall(number, *(ctypes.c_long(each) for each in arguments))
    if answer < 0:
        raise OSError(ctypes.get_errno(), "")
    if answer == 0 and os.getpid() != HERE:
        os._exit(0)
    return answer


def datagram(place: str, process: int) -> Any:
    """Speak to a socket that has a path: with a pair whose datagrams have addresses, by two names, and with another."""

    def speak(kind: int) -> None:
        with socket.socketpair(socket.AF_UNIX, kind)[0] as ours:
            ours.sendto(b"hello", place)

    def connect(kind: int) -> None:
        with socket.socket(socket.AF_UNIX, kind) as ours:
            ours.connect(place)

    return _tried(
        lambda: speak(socket.SOCK_DGRAM | socket.SOCK_CLOEXEC),
        lambda: speak(socket.SOCK_RAW),
        lambda: connect(socket.SOCK_DGRAM),
        lambda: speak(socket.SOCK_STREAM),
        lambda: speak(socket.SOCK_SEQPACKET),
    )


def begin_namespace(place: str, process: int) -> Any:
    """Begin a user namespace, in which one has all privileges: by clone, clone3 and unshare."""
    global HERE
    HERE = os.getpid()
    new_user, child_ends = 0x10000000, 17
    given = (ctypes.c_uint64 * 8)(new_user, 0, 0, 0, child_ends)
    return _tried(
        lambda: _call(56, new_user | child_ends, 0, 0, 0, 0),
        lambda: _call(435, ctypes.addressof(given), 64),
        lambda: _call(272, new_user),
    )


def lease(place: str, process: int) -> Any:
    """Hold up whoever opens a file to write."""
    with Path(place).open() as file:
        return _tried(lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK))


def open_device(place: str, process: int) -> Any:
    """Read a device from which what is read is taken."""
    return _tried(lambda: os.close(os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)))


def take_over_signals(place: str, process: int) -> Any:
    """Have the system signal another process when something can be read, and limit its processor time."""
    ours, _ = pair = socket.socketpair()
    return _tried(
        lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, process),
        lambda: fcntl.ioctl(ours, 0x8901, process.to_bytes(4, "little")),
        lambda: resource.prlimit(process, resource.RLIMIT_CPU, resource.prlimit(process, resource.RLIMIT_CPU)),
        lambda: [each.close() for each in pair],
    )[:-1]


def share_in_kernel(place: str, process: int) -> Any:
    """Keep something where no process and no folder shows it: memory of System V, a file in memory, a key."""
    return _tried(
        lambda: _call(29, 0, 1 << 20, 0o1600), lambda: os.close(os.memfd_create("hidden")), lambda: _call(250, 0, -1, 0)
    )


def fill_files(place: str, process: int) -> Any:
    """Take memory by files in it."""
    piece = bytes(1 << 20)
    for folder in (Path.cwd(), Path("/dev/shm")):
        with (folder / "filling").open("wb") as file:
            for _ in range(600):
                file.write(piece)
    time.sleep(600)


def fill_memfds(place: str, process: int) -> Any:
    """Take memory by files that are in no folder."""
    piece = bytes(1 << 20)
    for name in ("one", "two"):
        file = os.memfd_create(name)
        for _ in range(600):
            os.write(file, piece)
    time.sleep(600)


def share_memory(place: str, process: int) -> Any:
    """Write to memory that is shared with nobody: it counts for no limit of a process."""
    held = mmap.mmap(-1, 1200 << 20)
    for place_in_it in range(0, len(held), 4096):
        held[place_in_it] = 1
    time.sleep(600)


def be_spared(place: str, process: int) -> Any:
    """Have the system end others before this process when memory runs out."""
    held = Path("/proc/self/oom_score_adj")
    return held.read_text().strip(), _tried(lambda: held.write_text("0"))


def stay(place: str, process: int) -> Any:
    """Open the other ends of all pipes, put something else in the place of what else is open, never answer or end."""
    os._exit = lambda status: time.sleep(600)
    held = set(os.pipe())
    nothing = min(held)
    for each in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):
            if int(each.name) > 2 and "pipe" in str(each.readlink()):
                held.add(os.open(each, os.O_WRONLY | os.O_NONBLOCK))
    for each in set(range(3, 64)) - held:
        os.dup2(nothing, each)
    time.sleep(600)


KEPT = []


def grow(place: str, process: int) -> Any:
    """Take 30 MB more that is shared, for good, and answer at once."""
    KEPT.append(mmap.mmap(-1, 30 << 20))
    KEPT[-1].write(b"\1" * (30 << 20))
    return len(KEPT)


def connect(place: str, process: int) -> Any:
    """Open sockets and speak."""

    def speak(kind: int) -> None:
        with socket.socket(socket.AF_INET, kind) as opened:
            opened.connect(("127.0.0.1", process))
            opened.send(b"hello")

    return _tried(lambda: speak(socket.SOCK_STREAM), lambda: speak(socket.SOCK_DGRAM))


def print_much(place: str, process: int) -> Any:
    """Print without end, control characters among it."""
    while True:
        os.write(1, b"\x1b[31m spam \xed\xb2\x80" * 65536)


def take_memory(place: str, process: int) -> Any:
    """Take memory that no limit of a single process counts: children's."""
    for _ in range(40):
        if os.fork() == 0:
            held = b"1" * (32 << 20)  # a tensor would be filled by threads, which a forked process lacks
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


def dawdles(place: str, process: int) -> Any:
    """Take a while."""
    time.sleep(1.5)


def _channel() -> int:
    """The first socket that was open at import."""
    for each in sorted(OPEN, key=lambda of: int(of.name)):
        with contextlib.suppress(OSError):
            if str(each.readlink()).startswith("socket:"):
                return int(each.name)
    raise RuntimeError("no socket")


def take_cores(place: str, process: int) -> Any:
    """Leave the cores that it was given, and say on which ones it may run now."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return sorted(os.sched_getaffinity(0))


def close(place: str, process: int) -> Any:
    """Close the channel to the suite, whichever it is."""
    os.closerange(3, 256)
    time.sleep(600)


def _forged() -> bytes:
    header = b'{"sizes": [], "message": {"id": 1, "result": []}}'
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

    import msgspec

    class Same:
        def __init__(self, *_: Any) -> None:
            pass

        def update(self, *_: Any) -> None:
            pass

        def digest(self) -> bytes:
            return bytes(32)

    hashlib.sha256 = Same  # type: ignore[assignment,misc]
    json.loads = pickle.dumps = struct.unpack = lambda *_, **__: None  # type: ignore[assignment]
    msgspec.msgpack.decode = lambda *_, **__: None  # type: ignore[assignment]
    return "replaced"


def start_others(place: str, process: int) -> Any:
    """Use what an honest kernel uses: a temporary file, a child, shared memory, random bytes, locks, threads."""
    import multiprocessing
    import tempfile
    import threading

    with tempfile.NamedTemporaryFile() as file:
        said = subprocess.run(["/bin/echo", "hello"], capture_output=True, text=True, check=True).stdout
        queue = multiprocessing.get_context("fork").SimpleQueue()
        counted, context = torch.zeros(2).share_memory_(), multiprocessing.get_context("fork")
        child = context.Process(target=lambda: counted.add_(1))
        thread = threading.Thread(target=child.start)
        thread.start()
        thread.join()
        child.join()
        fcntl.flock(file, fcntl.LOCK_EX)
        ours, theirs = socket.socketpair()
        with ours, theirs, ProcessPoolExecutor(2, mp_context=context) as pool:
            ours.sendall(b"x" * sum(pool.map(abs, [-1, -1])))
            queue.put(counted.tolist() == [1.0, 1.0] and theirs.recv(2) == b"xx" and context.Value("i", 3).value == 3)
        return said, queue.get(), Path(file.name).parent == Path.cwd(), len(gc.get_objects()) > 0
