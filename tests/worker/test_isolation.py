"""What hostile submissions can do: in the sandbox, and where the machine lacks a mechanism of it."""

import os
import platform
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
from workers import LIMIT, MISBEHAVES, SUBMISSIONS, answered, call, findings, gone, run_program

from attnsuite.model.temporary import PREFIX
from attnsuite.worker import process
from attnsuite.worker.process import MEMORY_CHECK_INTERVAL
from attnsuite.worker.sandbox import MECHANISMS, detected, namespaces, sweep
from attnsuite.worker.sandbox.processes import descendants
from attnsuite.worker.worker import Crash, Ready, Worker

ALL, HERE = tuple(mechanism.name for mechanism in MECHANISMS), detected()
PID, MOUNT, NETWORK, LIMITS = "PID namespace", "mount namespace", "network namespace", "limits of the system"
Start = Callable[..., Worker]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a sandboxed worker, where the machine is said to lack some mechanisms."""
    begun: list[Worker] = []

    def begin(*lacking: str, target: str = MISBEHAVES, **more: Any) -> Worker:
        monkeypatch.setattr(process, "detected", lambda: tuple(name for name in HERE if name not in lacking))
        begun.append(Worker(target, time_limit=LIMIT, start_limit=5 * LIMIT, sandboxed=True, **more))
        return begun[-1]

    yield begin
    for worker in begun:
        worker.close()


def needs(worker: Worker, *names: str) -> None:
    """Skip where this machine lacks a mechanism that the test is about."""
    assert isinstance(worker.ready(), Ready)
    if missing := set(names) - set(worker.mechanisms):
        pytest.skip(f"this machine has no {', '.join(missing)}")


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, tuple[object, int]]]:
    """What each attack is aimed at: a place and a number."""
    (tmp_path / "there").write_text("ours")
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(f"{folder}/a")  # a short path
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield {
                "write": (tmp_path, 0),
                "lease": (tmp_path / "there", 0),
                "connect": ("", server.getsockname()[1]),
                "datagram": (f"{folder}/a", 0),
                "open_device": ("/dev/ptmx", 0),
            }


BY_NUMBER = ("begin_namespace", "share_in_kernel")
"""Attacks that call the system by the numbers of x86_64."""
ATTACKS = [
    ("kill", PID, ("Landlock", "seccomp")),
    ("kill", "Landlock", (PID, "seccomp")),
    ("kill", "seccomp", (PID, "Landlock")),
    ("read", PID, ("Landlock", MOUNT, NETWORK, "no capabilities")),
    ("write", MOUNT, ("Landlock",)),
    ("write", "Landlock", (MOUNT,)),
    ("connect", NETWORK, ("seccomp", "Landlock")),
    ("connect", "seccomp", (NETWORK, "Landlock")),
    ("datagram", "seccomp", ()),
    ("begin_namespace", "seccomp", ()),
    ("lease", "seccomp", ()),
    ("open_device", "Landlock", (MOUNT,)),
    ("take_over_signals", "seccomp", (PID,)),
    ("share_in_kernel", "seccomp", ()),
]
"""An attack, the mechanism that has to stop it, and others that might."""


@pytest.mark.parametrize(("mode", "mechanism", "others"), ATTACKS)
def test_a_mechanism_stops_an_attack_that_succeeds_without_it(
    start: Start, places: dict[str, tuple[object, int]], mode: str, mechanism: str, others: tuple[str, ...]
) -> None:
    if mode in BY_NUMBER and (platform.machine() != "x86_64" or namespaces.DRIVER.exists()):
        pytest.skip("calls of the system are made by their number, and the driver needs one of them")
    place, number = places.get(mode, ("", os.getpid()))

    sandboxed = start(*others)
    needs(sandboxed, mechanism)
    stopped = findings(sandboxed, mode, place, number)
    bare = start(mechanism, *others)
    succeeded = findings(bare, mode, place, number)

    assert "done" not in stopped
    if mode == "open_device" and not os.access(str(place), os.R_OK):
        pytest.skip("this machine has no such device")
    assert "done" in succeeded, "else the attack proves nothing"


def test_landlock_alone_keeps_the_memory_of_others_from_being_read(start: Start) -> None:
    worker = start(PID, MOUNT, NETWORK, "no capabilities")
    needs(worker, "Landlock")
    assert findings(worker, "read", process=os.getpid())[0] in ("ENOENT", "EACCES", "EPERM")
    assert findings(worker, "open_device", "/dev/zero") == ["done"]


def named(place: object) -> list[int]:
    """The processes on whose command line this stands."""
    lines = [(each.pid, each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    return [number for number, words in lines if any(f"MARK = {str(place)!r}" in word for word in words)]


@pytest.mark.parametrize(("lacking", "by"), [((), PID), ((PID,), "descent")], ids=["namespace", "descent"])
def test_nothing_survives(start: Start, tmp_path: Path, lacking: tuple[str, ...], by: str) -> None:
    worker = start(*lacking)
    needs(worker, by)
    assert findings(worker, "daemon", tmp_path) == "left"
    (left,) = named(tmp_path)
    assert Path(f"/proc/{left}/environ").read_bytes() == b""
    worker.close()
    assert gone(left)
    assert named(tmp_path) == []


def test_without_both_a_daemon_stays_and_no_protection_is_claimed(start: Start, tmp_path: Path) -> None:
    worker = start(PID, "descent")
    assert findings(worker, "daemon", tmp_path) == "left"
    assert not {PID, "descent"} & set(worker.mechanisms)
    worker.close()
    for number in named(tmp_path):
        os.kill(number, signal.SIGKILL)


OUT_OF_TURN = "invalid reply: a reply out of turn: something other than the worker wrote to its channel"
GIBIBYTE = "took more than 1.0 GiB of memory"
DEATHS = [
    ("close", "exit status 1", ()),
    ("close", "exit status 1", (PID,)),
    ("leave", "exit status 0", ()),
    ("leave", "exit status 0", (PID,)),
    ("abort", "SIGABRT", ()),
    ("abort", "SIGABRT", (PID,)),
    ("reply_early", OUT_OF_TURN, ()),
    ("reply_much", "replied with more than 0.25 GiB", ()),
    ("print_much", "printed more than 64 MiB", ()),
    ("take_memory", GIBIBYTE, ()),
    ("fill_memfds", GIBIBYTE, ("seccomp",)),  # which forbids it, but where a driver needs it
    pytest.param("fill_files", GIBIBYTE, (), marks=pytest.mark.slow),
    pytest.param("share_memory", GIBIBYTE, (), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("mode", "how", "lacking"), DEATHS)
def test_a_death_is_said_through_the_supervisor_and_the_next_call_is_answered(
    start: Start, mode: str, how: str, lacking: tuple[str, ...]
) -> None:
    worker = start(*lacking, memory_limit=1 << 30)
    if mode in ("fill_files", "share_memory", "take_memory"):
        needs(worker, MOUNT, LIMITS)
    crash = worker.run_calls([call(mode)])
    assert isinstance(crash, Crash)
    assert crash.how == how
    assert len(crash.printed) < 10_000
    assert answered(worker.run_calls([call()]))[0].output is not None


def test_a_forged_reply_is_found_out_at_once(start: Start) -> None:
    worker = start()
    worker.ready()
    before = time.monotonic()
    assert isinstance(worker.run_calls([call("reply_early")]), Crash)
    assert time.monotonic() - before < LIMIT / 2
    assert findings(worker, "reply_later") == "soon"
    time.sleep(1.5)
    crash = worker.run_calls([call()])
    assert isinstance(crash, Crash)
    assert crash.how == OUT_OF_TURN


def test_memory_is_limited_in_one_process(start: Start) -> None:
    worker = start(memory_limit=1 << 30)
    needs(worker, LIMITS)
    assert "memory" in answered(worker.run_calls([call("take_own_memory")]))[0].error


@pytest.mark.slow
def test_memory_is_counted_of_a_process_that_answers_at_once(start: Start) -> None:
    """Each call takes less time than a look at the memory is made after, where the machine is idle."""
    worker = start(memory_limit=1 << 30)
    for _ in range(45):  # 1.4 GB
        answer = worker.run_calls([call("grow")])
        time.sleep(MEMORY_CHECK_INTERVAL / 5)
        if isinstance(answer, Crash):
            break
    assert isinstance(answer, Crash)
    assert answer.how == GIBIBYTE


def _may_set_resources() -> bool:
    """Whether this process has the privilege CAP_SYS_RESOURCE."""
    status = Path("/proc/self/status").read_text() if Path("/proc/self/status").exists() else ""
    held = [line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")]
    return any(int(each, 16) >> 24 & 1 for each in held)


def test_the_system_ends_it_before_others_and_it_cannot_change_that(start: Start) -> None:
    worker = start()
    needs(worker, LIMITS, "no capabilities")
    score, changed = findings(worker, "be_spared")
    assert score == "1000"
    assert changed == ["EACCES"] or not _may_set_resources(), "only with CAP_SYS_RESOURCE can one say so for good"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds nothing to a core")
def test_the_cores_that_it_was_given_are_not_left(start: Start) -> None:
    every = sorted(os.sched_getaffinity(0))
    if len(every) < 2:
        pytest.skip("this machine has one core")
    worker = start(cores=[every[0]])
    needs(worker, "seccomp")
    assert findings(worker, "take_cores") == [every[0]]
    worker.move([every[-1]])
    assert findings(worker, "take_cores") == [every[-1]]


@pytest.mark.parametrize("lacking", [(), (MOUNT, "Landlock")], ids=["mounted", "a folder"])
def test_a_folder_of_its_own_is_there_and_goes(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: tuple[str, ...]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where no other test makes any
    worker = start(*lacking)
    folder, temporary = findings(worker, "where")
    assert Path(folder).name.startswith(PREFIX)
    assert temporary == folder
    assert findings(worker, "move") == ""
    assert findings(worker, "where")[0] == folder, "the next call finds it where it was"
    with suppress(AssertionError):
        assert findings(worker, "remove_room") == "removed"
    worker.run_calls([call()])
    worker.close()
    assert not Path(folder).exists()
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_replaced_functions_hide_nothing(start: Start) -> None:
    writes = start(target=str(SUBMISSIONS / "hostile_mutation.py"))
    (reply,) = answered(writes.run_calls([replace(call(), options={})]))
    assert "query" in reply.changed
    later = start()
    with suppress(AssertionError):
        findings(later, "replace_functions")
    assert isinstance(later.run_calls([call()]), Crash), "without the worker's own tools there is no answer"


@pytest.mark.parametrize("lacking", [(), (PID,), ALL], ids=["all", "descent", "none"])
def test_honest_code_finds_what_it_needs(start: Start, lacking: tuple[str, ...]) -> None:
    assert findings(start(*lacking), "start_others") == ("hello\n", True, True, True)


def test_an_interpreter_of_its_own_has_the_same_sandbox(start: Start) -> None:
    forked, fresh = start(), start(device="cuda")
    for worker in (forked, fresh):
        assert isinstance(worker.ready(), Ready)
    assert fresh.mechanisms == forked.mechanisms != ()
    pid = fresh.pid
    assert pid is not None
    fresh.close()
    assert gone(pid)


@pytest.mark.slow
def test_what_a_killed_suite_leaves_goes_by_itself_or_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with run_program("asks_walled.py", MISBEHAVES, "stay", environment={"TMPDIR": str(tmp_path)}) as killed:
        assert killed.stdout
        folder, supervisor = killed.stdout.readline().split()
        members = {int(supervisor), *descendants(int(supervisor))}
        time.sleep(1)  # until it has put something else in the place of the channel
        sweep.__wrapped__()
        assert Path(folder).is_dir(), "it is in use"
        killed.kill()
        killed.wait()
    assert all(gone(member) for member in members)
    sweep.cache_clear()
    assert isinstance(start().ready(), Ready)
    assert not Path(folder).exists()
