"""The sandbox's mechanisms: what the machine has, what they say of themselves, and each by itself."""

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
from attnsuite.worker import sandbox
from attnsuite.worker.process import Process
from attnsuite.worker.sandbox import (
    MECHANISMS,
    Protection,
    chosen,
    detected,
    in_short,
    in_words,
    memory,
    namespaces,
    seccomp,
)
from attnsuite.worker.sandbox.mechanism import make_space, works
from attnsuite.worker.sandbox.system import NEW_MOUNTS, NEW_NETWORK, NEW_PROCESSES, NEW_USER

ALL = [mechanism.name for mechanism in MECHANISMS]


def test_what_nothing_protects_is_said() -> None:
    assert in_words([]).startswith("sandbox: none; unavailable on this machine: what it starts, the memory of others, ")
    assert in_words(["seccomp"]).startswith(
        "sandbox: signals (seccomp); the network (seccomp); unavailable on this machine: "
    )
    assert "not kept" not in in_words(ALL)
    assert all(protection in in_words(ALL) for protection in Protection)
    assert "signals (PID namespace" in in_words(ALL)


def test_a_report_says_it_in_a_short_line() -> None:
    without = [name for name in ALL if name not in ("seccomp", "network namespace")]

    assert in_short(ALL) == "sandbox: all 6 protections active"
    assert in_short(without) == "sandbox: 5 of 6 protections active; unavailable on this machine: the network"


@pytest.mark.parametrize("names", [["descent", "PID namespace"], ["descent"]])
def test_a_needless_mechanism_is_left_out(names: list[str]) -> None:
    assert [mechanism.name for mechanism in chosen(names)] == names[-1:]


def test_mechanisms_are_detected_whatever_the_environment_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-16")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        output, errors = sandbox._detection.__wrapped__(0).communicate()
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert set(json.loads(output)) <= set(ALL), errors


@pytest.mark.filterwarnings("ignore:os.fork")  # of JAX, if another test imported it: the child ends at once
def test_a_child_process_finds_out_what_works() -> None:
    assert works(lambda: None)
    assert not works(lambda: os.close(-1))


def test_where_detection_fails_nothing_runs_without_a_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "raise OSError('no folder for temporary files')"]
    detection = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    monkeypatch.setattr(sandbox, "_detection", lambda process: detection)
    monkeypatch.setattr(sandbox, "_detected", None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with pytest.raises(UsageError, match=r"which sandbox this machine has: OSError: no folder for temporary files$"):
        Process({}, sandboxed=True)

    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:os.fork")
@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("driver", [True, False])
def test_with_nvidia_s_driver_a_pid_namespace_needs_a_proc_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: bool, shown: bool
) -> None:
    if not works(namespaces.find_itself):
        pytest.skip("here /proc cannot be mounted")
    monkeypatch.setattr(namespaces, "DRIVER", tmp_path if driver else tmp_path / "none")
    if not shown:
        monkeypatch.setattr(namespaces, "show_own_processes", lambda: os.close(-1))
    assert works(namespaces.PID_NAMESPACE.probe) == (shown or not driver)


def test_the_machine_s_sandbox_can_be_printed() -> None:
    program = [sys.executable, "-m", "attnsuite.worker.sandbox"]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert printed == in_words(detected()) + "\n"


SOCKETS = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM, socket.SOCK_RAW)


@pytest.mark.parametrize("processor", list(seccomp.NUMBERS))
@pytest.mark.parametrize("process", [0, 7])
def test_the_filter_allows_and_refuses(processor: str, process: int) -> None:
    kernel, numbers = seccomp.NUMBERS[processor]
    allowed, refused, unknown = seccomp.ALLOWED, seccomp.REFUSED, seccomp.UNKNOWN
    outside = refused if process else allowed

    def result(call: str | int, *arguments: int, of: int = kernel, driver: bool = False) -> int:
        words = {16 + 8 * place: argument for place, argument in enumerate(arguments)}
        number = numbers[call] if isinstance(call, str) else call
        return _run(seccomp.instructions(processor, process, driver), {0: number, 4: of, **words})

    assert {result(name, 7) for name in seccomp.FORBIDDEN} == {refused}
    assert {result(name, 7) for name in seccomp.ABSENT} == {unknown}
    assert {result(name, 7) for name in seccomp.IGNORED} == {seccomp.PRETENDED}
    assert {(result(name, 7), result(name, 8)) for name in seccomp.ITSELF} == {(allowed, outside)}
    assert (result("prlimit64", 0), result("pidfd_send_signal")) == (allowed, outside)
    assert (result(63), result(63, of=0), result(63 | seccomp.OTHER_CALLS)) == (allowed, refused, refused)
    for call in ("memfd_create", "bind"):
        assert result(call, driver=True) == allowed
    assert (result("clone3", driver=True), result("connect", driver=True)) == (unknown, refused)

    threads, child_ends = 0x3D0F00, 17
    assert result("clone", threads) == result("clone", child_ends) == allowed
    for namespace in (NEW_MOUNTS, NEW_USER, NEW_PROCESSES, NEW_NETWORK):
        assert result("clone", namespace | child_ends) == refused
    commands = (fcntl.F_GETFL, fcntl.F_SETLK, fcntl.F_SETLEASE, fcntl.F_SETOWN)
    assert [result("fcntl", 3, command) for command in commands] == [allowed, allowed, refused, outside]
    assert [result("ioctl", 3, request) for request in (1, 0x8901)] == [allowed, outside]
    for flags in (0, socket.SOCK_CLOEXEC, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK):
        for call, driver in (("socketpair", False), ("socket", True)):
            pairs = [result(call, socket.AF_UNIX, kind | flags, driver=driver) for kind in SOCKETS]
            assert pairs == [allowed, allowed, refused, refused]
            assert result(call, socket.AF_INET, socket.SOCK_STREAM, driver=driver) == refused


def _run(program: seccomp.Sequence[seccomp.Instruction], words: dict[int, int]) -> int:
    """What a filter returns, instruction by instruction."""
    place = loaded = 0
    while True:
        code, if_true, if_false, number = program[place]
        place += 1
        if code == seccomp.RETURN:
            return number
        if code == seccomp.LOAD:
            loaded = words[number]
        elif code == seccomp.KEEP_BITS:
            loaded &= number
        else:
            tests = {seccomp.EQUAL: loaded == number, seccomp.AT_LEAST: loaded >= number}
            place += if_true if tests.get(code, bool(loaded & number)) else if_false


def test_an_unknown_processor_has_no_filter() -> None:
    with pytest.raises(OSError, match="of pdp11 are unknown"):
        seccomp.instructions("pdp11", 0)


def test_a_worker_has_the_caches_that_the_user_names_and_no_others(tmp_path: Path) -> None:
    cache = tmp_path / "compiled"
    made = make_space({"TORCHINDUCTOR_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(tmp_path)}, ["seccomp"], 5)

    assert (made.writable, made.memory, made.mechanisms) == ((str(cache),), 5, ("seccomp",))
    folder = Path(made.folder)
    (folder / "deep").mkdir()
    (folder / "deep" / "file").touch()
    (folder / "deep").chmod(0)
    (folder / "out").symlink_to(tmp_path)
    remove(folder)
    assert not folder.exists()
    assert cache.is_dir()


def _process(folder: Path, number: int, pages: int, shares: str | None = None) -> None:
    (folder / f"{number}").mkdir()
    (folder / f"{number}" / "statm").write_text(f"99999 {pages} 0 0 0 0 0\n")
    if shares is not None:
        (folder / f"{number}" / "smaps_rollup").write_text(f"55a-7ff ---p 00000000 00:00 0 [rollup]\n{shares}")


def test_shared_pages_are_counted_once_unless_a_process_hides_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "PROCESSES", tmp_path)
    monkeypatch.setattr(memory, "descendants", lambda supervisor: [7, 8])
    monkeypatch.setattr(memory, "_in_folders", lambda supervisor, folders: 30 << 20)
    pages = (100 << 20) // memory.PAGE
    _process(tmp_path, 7, pages, "Rss: 102400 kB\nPss: 71680 kB\nPss_Shmem: 20480 kB\n")
    _process(tmp_path, 8, pages)

    assert memory.taken(1, Path("/"), 1 << 30) == 230 << 20
    assert memory.taken(1, Path("/"), 1 << 20) == (70 + 100 + (30 - 20)) << 20


PROGRAM = """
import sys
import time

from attnsuite.worker.sandbox.processes import die_with_the_parent

die_with_the_parent(int(sys.argv[1]))
print("it lives", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's alone")
@pytest.mark.parametrize("gone_before", [True, False])
def test_a_process_ends_when_the_other_end_of_its_life_is_closed(gone_before: bool) -> None:
    life, held = os.pipe()
    if gone_before:
        os.close(held)
    command = [sys.executable, "-c", PROGRAM, str(life)]
    with subprocess.Popen(command, pass_fds=[life], stdout=subprocess.PIPE, start_new_session=True) as process:
        os.close(life)
        assert process.stdout is not None
        printed = process.stdout.readline()
        if not gone_before:
            os.close(held)
        ended = process.wait(timeout=60)

    assert (ended, printed) == (-signal.SIGKILL, b"" if gone_before else b"it lives\n")
