"""What walls say of themselves, and what this machine has."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from attnsuite.model import UsageError
from attnsuite.model.temporary import remove
from attnsuite.worker import sandbox as walls
from attnsuite.worker.process import Process
from attnsuite.worker.sandbox import (
    WALLS,
    Keeps,
    Room,
    cgroups,
    found_elsewhere,
    in_short,
    in_words,
    limits,
    memory,
    named,
    processes,
    room,
    seccomp,
)
from attnsuite.worker.sandbox.descent import below
from attnsuite.worker.sandbox.memory import resident
from attnsuite.worker.sandbox.system import NEW_MOUNTS, NEW_NETWORK, NEW_PROCESSES, NEW_USER
from attnsuite.worker.sandbox.wall import works


def test_what_nothing_keeps_is_said() -> None:
    assert in_words([]).startswith("walls: none; not so on this machine: what it starts ends with it; ")
    assert in_words(["Landlock", "seccomp"]).endswith(
        "what it starts ends with it; memory and the size of files are limited; "
        "the memory and the number of all its processes together, too"
    )
    everything = in_words([each.name for each in WALLS])
    assert "not so" not in everything
    assert all(keeps in everything for keeps in Keeps)
    assert "nor signalled (PID namespace" in everything


def test_a_report_says_it_in_a_short_line() -> None:
    everything = [each.name for each in WALLS]
    assert in_short(everything) == "walls: all 7 stand"
    without = [name for name in everything if name not in ("seccomp", "network namespace", "cgroup")]
    due = "walls: 5 of 7 stand; not kept on this machine: the network, the memory of all its processes together"
    assert in_short(without) == due


def test_a_needless_wall_is_left_out() -> None:
    assert [each.name for each in named(["descent", "PID namespace"])] == ["PID namespace"]
    assert [each.name for each in named(["descent"])] == ["descent"]


def test_walls_are_found_whatever_whoever_starts_it_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-16")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        said, why = walls._looking.__wrapped__(0).communicate()
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert set(json.loads(said)) <= {each.name for each in WALLS}, why


@pytest.mark.filterwarnings("ignore:os.fork")  # of JAX, if another test imported it: the child ends at once
def test_walls_are_found_by_putting_them_up() -> None:
    assert set(found_elsewhere()) <= {each.name for each in WALLS}
    assert not works(lambda: os.close(-1))
    assert works(lambda: None)


def test_where_walls_cannot_be_looked_for_nobody_runs_without_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = [sys.executable, "-c", "raise OSError('no folder for temporary files')"]
    looking = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    monkeypatch.setattr(walls, "_looking", lambda process: looking)
    monkeypatch.setattr(walls, "_found", walls._found.__wrapped__)

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)

    with pytest.raises(UsageError, match=r"which walls this machine has: OSError: no folder for temporary files$"):
        Process({}, walled=True)

    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:os.fork")
@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("driver", [True, False])
def test_with_nvidia_s_driver_a_pid_namespace_needs_a_proc_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: bool, shown: bool
) -> None:
    if not works(processes._find_itself):
        pytest.skip("here /proc cannot be mounted")
    monkeypatch.setattr(processes, "DRIVER", tmp_path if driver else tmp_path / "none")
    if not shown:
        monkeypatch.setattr(processes, "show_own_processes", lambda: os.close(-1))
    assert works(processes.WALL.probe) == (shown or not driver)


def test_a_page_of_the_machine_s_walls_can_be_printed() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "attnsuite.worker.sandbox"], capture_output=True, text=True, check=True
    ).stdout
    assert said == in_words(found_elsewhere()) + "\n"


@pytest.mark.parametrize("processor", list(seccomp.NUMBERS))
@pytest.mark.parametrize("process", [0, 7])
def test_the_filter_allows_and_refuses(processor: str, process: int) -> None:
    kernel, numbers = seccomp.NUMBERS[processor]
    allowed, refused, unknown = seccomp.ALLOWED, seccomp.REFUSED, seccomp.UNKNOWN
    outside = refused if process else allowed

    def asked(number: int, *arguments: int, of: int = kernel) -> int:
        given = {16 + 8 * place: argument for place, argument in enumerate(arguments)}
        return _run(seccomp.instructions(processor, process), {0: number, 4: of, **given})

    assert all(asked(numbers[name], 7) == refused for name in seccomp.ALWAYS)
    assert all(asked(numbers[name], 7) == unknown for name in seccomp.ABSENT)
    assert all(asked(numbers[name], 7) == seccomp.NOT_DONE for name in seccomp.PRETENDED)
    for name in seccomp.ONLY_ITSELF:
        assert asked(numbers[name], 7) == allowed
        assert asked(numbers[name], 8) == outside
    with_driver = seccomp.instructions(processor, process, driver=True)
    assert _run(with_driver, {0: numbers["memfd_create"], 4: kernel}) == allowed
    assert _run(with_driver, {0: numbers["clone3"], 4: kernel}) == unknown
    connected, datagram = {16: socket.AF_UNIX, 24: seccomp.CONNECTED[1]}, {16: socket.AF_UNIX, 24: socket.SOCK_DGRAM}
    assert _run(with_driver, {0: numbers["socket"], 4: kernel, **connected}) == allowed
    assert _run(with_driver, {0: numbers["socket"], 4: kernel, **datagram}) == refused
    assert _run(with_driver, {0: numbers["socket"], 4: kernel, **connected, 16: socket.AF_INET}) == refused
    assert _run(with_driver, {0: numbers["bind"], 4: kernel}) == allowed
    assert _run(with_driver, {0: numbers["connect"], 4: kernel}) == refused
    assert asked(numbers["prlimit64"], 0) == allowed
    assert asked(numbers["pidfd_send_signal"]) == outside
    assert asked(63) == allowed
    assert asked(63, of=0) == refused
    assert asked(63 | seccomp.OTHER_CALLS) == refused

    threads, child_ends = 0x3D0F00, 17
    assert asked(numbers["clone"], threads) == asked(numbers["clone"], child_ends) == allowed
    for each in (NEW_MOUNTS, NEW_USER, NEW_PROCESSES, NEW_NETWORK):
        assert asked(numbers["clone"], each | child_ends) == refused
    assert [asked(numbers["fcntl"], 3, command) for command in (fcntl.F_GETFL, fcntl.F_SETLK)] == [allowed] * 2
    assert asked(numbers["fcntl"], 3, fcntl.F_SETLEASE) == refused
    assert asked(numbers["fcntl"], 3, fcntl.F_SETOWN) == asked(numbers["ioctl"], 3, 0x8901) == outside
    assert asked(numbers["ioctl"], 3, 1) == allowed
    for flags in (0, socket.SOCK_CLOEXEC, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK):
        kinds = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM, socket.SOCK_RAW)
        found = [asked(numbers["socketpair"], socket.AF_UNIX, kind | flags) for kind in kinds]
        assert found == [allowed, allowed, refused, refused]
    assert asked(numbers["socketpair"], socket.AF_INET, socket.SOCK_STREAM) == refused


def _run(program: seccomp.Sequence[seccomp.Instruction], given: dict[int, int]) -> int:
    """What a filter returns, instruction by instruction."""
    place = loaded = 0
    while True:
        code, if_true, if_false, number = program[place]
        place += 1
        if code == seccomp.RETURN:
            return number
        if code == seccomp.LOAD:
            loaded = given[number]
        elif code == seccomp.KEEP_BITS:
            loaded &= number
        else:
            tests = {seccomp.EQUAL: loaded == number, seccomp.AT_LEAST: loaded >= number}
            place += if_true if tests.get(code, bool(loaded & number)) else if_false


def test_an_unknown_processor_has_no_filter() -> None:
    with pytest.raises(OSError, match="of pdp11 are not known"):
        seccomp.instructions("pdp11", 0)


def test_a_room_has_the_caches_that_the_user_names_and_no_others(tmp_path: Path) -> None:
    named = tmp_path / "compiled"
    made = room.make_room({"TORCHINDUCTOR_CACHE_DIR": str(named), "XDG_CACHE_HOME": str(tmp_path)}, 5)
    assert made.writable == (named,)
    assert named.is_dir()
    assert made.memory == 5
    (made.folder / "deep").mkdir()
    (made.folder / "deep" / "file").touch()
    (made.folder / "deep").chmod(0)
    (made.folder / "out").symlink_to(tmp_path)
    remove(made.folder)
    assert not made.folder.exists()
    assert named.is_dir()


def test_memory_is_added_up() -> None:
    assert resident([os.getpid()]) > 1 << 20
    assert resident([]) == 0
    assert limits.memory_limit() > 1 << 28
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in below(os.getpid())


def _process(place: Path, number: int, pages: int, shares: str | None = None) -> None:
    (place / f"{number}").mkdir()
    (place / f"{number}" / "statm").write_text(f"99999 {pages} 0 0 0 0 0\n")
    if shares is not None:
        (place / f"{number}" / "smaps_rollup").write_text(f"55a-7ff ---p 00000000 00:00 0 [rollup]\n{shares}")


def test_shared_pages_are_counted_once_unless_somebody_hides_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "PROCESSES", tmp_path)
    monkeypatch.setattr(memory, "below", lambda guard: [7, 8])
    monkeypatch.setattr(memory, "_in_files", lambda guard, folders: 30 << 20)
    pages = (100 << 20) // memory.PAGE
    _process(tmp_path, 7, pages, "Rss: 102400 kB\nPss: 71680 kB\nPss_Shmem: 20480 kB\n")
    _process(tmp_path, 8, pages)
    assert memory.taken(1, Path("/"), 1 << 30) == 230 << 20
    assert memory.taken(1, Path("/"), 1 << 20) == (70 + 100 + (30 - 20)) << 20


def _cgroup(folder: Path, handed_on: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / cgroups.PROCESSES).write_text("1\n")
    (folder / cgroups.HANDED_ON).write_text(handed_on)
    return folder


def test_a_cgroup_is_made_below_the_nearest_that_hands_on_what_is_needed(tmp_path: Path) -> None:
    root = _cgroup(tmp_path / "mounted", "cpu memory pids")
    _cgroup(root / "user", "memory pids\n")
    _cgroup(root / "user" / "scope", "")
    own = tmp_path / "own"
    own.write_text("4:memory:/elsewhere\n0::/user/scope\n")
    assert list(cgroups.places(own, (tmp_path / "none", root))) == [root / "user", root]
    assert list(cgroups.places(own, (tmp_path / "none",))) == []
    own.write_text("0::/../outside\n")
    assert list(cgroups.places(own, (root,))) == []


def test_a_cgroup_has_the_limits_of_the_room(tmp_path: Path) -> None:
    place = _cgroup(tmp_path, "memory pids")
    cgroups.move_in(place, Room(Path("/tmp/attnsuite-of-mine"), memory=5 << 20))
    made = place / "attnsuite-of-mine"
    assert (made / "memory.max").read_text() == f"{5 << 20}"
    assert (made / "pids.max").read_text() == f"{limits.PROCESSES_LIMIT}"
    assert (made / cgroups.PROCESSES).read_text() == "0"
    with pytest.raises(FileExistsError):
        cgroups.move_in(place, Room(Path("/tmp/attnsuite-of-mine")))


def test_where_no_cgroup_was_delegated_the_line_says_so() -> None:
    is_there = next(cgroups.places(), None) is not None
    assert is_there or "all its processes together" in in_short(found_elsewhere())
