"""What hostile submissions get: behind walls, and where a wall is not to be had."""

from __future__ import annotations

import os
import platform
import signal
import socket
import tempfile
import time
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
import torch
from workers import LIMIT, PROGRAMS, SUBMISSIONS, answered, gone, run_program

from attnsuite.cases import Call
from attnsuite.model.temporary import PREFIX
from attnsuite.worker import Died, Hung, Ready, Worker
from attnsuite.worker import process as started
from attnsuite.worker.process import LOOK_EVERY
from attnsuite.worker.sandbox import MECHANISMS, namespaces, sweep
from attnsuite.worker.sandbox.processes import descendants as below

HOSTILE = str(SUBMISSIONS / "hostile.py")
OFFERED = [each.name for each in MECHANISMS]
ROOMS = Path(os.environ.get("TMPDIR", "/tmp"))


def call(mode: str, place: object = "", process: int = 0) -> Call:
    tensors = {name: torch.ones(2, 2) for name in ("query", "key", "value")}
    return Call(tensors, {"mode": mode, "place": str(place), "process": process} if mode else {})


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    """Starts a walled worker, where the machine is said to lack some walls."""
    begun: list[Worker] = []

    def begin(*lacking: str, **more: Any) -> Worker:
        monkeypatch.setattr(started, "wanted", lambda: [name for name in OFFERED if name not in lacking])
        begun.append(Worker(more.pop("target", HOSTILE), time_limit=LIMIT, start_limit=5 * LIMIT, walled=True, **more))
        return begun[-1]

    yield begin
    for each in begun:
        each.close()


def said(worker: Worker, mode: str, place: object = "", process: int = 0) -> Any:
    """What the submission found out."""
    raised = answered(worker.ask([call(mode, place, process)]))[0].raised
    assert raised.startswith("RuntimeError: "), raised
    return literal_eval(raised.removeprefix("RuntimeError: "))


def stand(worker: Worker, *names: str) -> None:
    """Skip where this machine lacks a wall that the test is about."""
    assert isinstance(worker.ready(), Ready)
    if missing := set(names) - set(worker.walls):
        pytest.skip(f"this machine has no {', '.join(missing)}")


def named(place: object) -> list[int]:
    """The processes on whose command line this stands."""
    found = []
    for each in psutil.process_iter(["cmdline"]):
        if any(f"MARK = {str(place)!r}" in word for word in each.info["cmdline"] or ()):
            found.append(each.pid)
    return found


@pytest.mark.parametrize(
    ("lacking", "by"), [((), "PID namespace"), (("PID namespace",), "descent")], ids=["namespace", "descent"]
)
def test_nothing_survives(hostile: Callable[..., Worker], tmp_path: Path, lacking: tuple[str, ...], by: str) -> None:
    worker = hostile(*lacking)
    stand(worker, by)
    assert said(worker, "daemon", tmp_path) == "left"
    (left,) = named(tmp_path)
    assert Path(f"/proc/{left}/environ").read_bytes() == b""
    worker.close()
    assert gone(left)
    assert named(tmp_path) == []


def test_where_neither_is_to_be_had_a_daemon_stays_and_no_wall_is_claimed(
    hostile: Callable[..., Worker], tmp_path: Path
) -> None:
    worker = hostile("PID namespace", "descent")
    assert said(worker, "daemon", tmp_path) == "left"
    assert not {"PID namespace", "descent"} & set(worker.walls)
    worker.close()
    for each in named(tmp_path):
        os.kill(each, signal.SIGKILL)


@pytest.mark.parametrize("lacking", [(), ("PID namespace",), ("PID namespace", "Landlock")])
def test_nobody_else_can_be_signalled(hostile: Callable[..., Worker], lacking: tuple[str, ...]) -> None:
    worker = hostile(*lacking)
    stand(worker, *({"PID namespace", "Landlock", "seccomp"} - set(lacking)))
    found = said(worker, "kill", process=os.getpid())
    assert found[0] in ("ProcessLookupError", "PermissionError")


def test_without_those_walls_the_suite_can_be_signalled(hostile: Callable[..., Worker]) -> None:
    worker = hostile("PID namespace", "Landlock", "seccomp")
    assert said(worker, "kill", process=os.getpid()) == ["reached"]


def test_nobody_else_can_be_read(hostile: Callable[..., Worker]) -> None:
    worker = hostile()
    stand(worker, "PID namespace")
    errors = {"FileNotFoundError", "PermissionError"}
    assert set(said(worker, "read", process=os.getpid())) <= errors
    landlocked = hostile("PID namespace", "mount namespace", "network namespace", "no capabilities")
    stand(landlocked, "Landlock")
    assert said(landlocked, "read", process=os.getpid())[0] in errors
    bare = hostile(*OFFERED)
    assert said(bare, "read", process=os.getpid())[1] == "read"


@pytest.mark.parametrize("wall", ["mount namespace", "Landlock"])
def test_no_file_outside_is_changed(hostile: Callable[..., Worker], tmp_path: Path, wall: str) -> None:
    (tmp_path / "there").write_text("ours")
    worker = hostile(*({"mount namespace", "Landlock"} - {wall}))
    stand(worker, wall)
    assert set(said(worker, "write", tmp_path)) <= {"OSError", "PermissionError"}
    assert [each.name for each in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text() == "ours"


def test_without_those_walls_files_can_be_changed(hostile: Callable[..., Worker], tmp_path: Path) -> None:
    (tmp_path / "there").write_text("ours")
    assert "done" in said(hostile("mount namespace", "Landlock"), "write", tmp_path)


@pytest.mark.parametrize("wall", ["network namespace", "seccomp"])
def test_no_network(hostile: Callable[..., Worker], wall: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        worker = hostile(*({"network namespace", "seccomp", "Landlock"} - {wall}))
        stand(worker, wall)
        assert set(said(worker, "connect", process=port)) <= {"OSError", "PermissionError"}
        bare = hostile("network namespace", "seccomp", "Landlock")
        assert said(bare, "connect", process=port) == ["sent", "sent"]


BY_NUMBER = pytest.mark.skipif(platform.machine() != "x86_64", reason="calls of the system are made by their number")


@pytest.fixture
def listening() -> Iterator[tuple[str, socket.socket]]:
    """A socket with a path, as many services of a machine have one."""
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.bind(f"{folder}/a")
        ours.settimeout(0.1)
        yield f"{folder}/a", ours


def test_no_socket_with_a_path_is_reached(hostile: Callable[..., Worker], listening: tuple[str, socket.socket]) -> None:
    place, ours = listening
    worker = hostile()
    stand(worker, "seccomp")
    assert said(worker, "datagram", place)[:3] == ["EPERM"] * 3
    assert "done" not in said(worker, "datagram", place)
    with pytest.raises(TimeoutError):
        ours.recv(5)
    assert said(hostile("seccomp"), "datagram", place)[:3] == ["done"] * 3
    assert ours.recv(5) == b"hello"


@BY_NUMBER
def test_no_namespace_is_begun(hostile: Callable[..., Worker]) -> None:
    worker = hostile()
    stand(worker, "seccomp")
    assert said(worker, "begin_namespace") == ["EPERM", "ENOSYS", "EPERM"]
    bare = hostile("seccomp")
    stand(bare, "PID namespace")  # else the machine may not have them
    assert said(bare, "begin_namespace")[:2] == ["done", "done"]


def test_nobody_is_held_up_who_writes_a_file(hostile: Callable[..., Worker], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    worker = hostile()
    stand(worker, "seccomp")
    assert said(worker, "lease", tmp_path / "file") == ["EPERM"]
    assert said(hostile(*OFFERED), "lease", tmp_path / "file") == ["done"]


def test_no_device_is_read_that_is_somebody_s(hostile: Callable[..., Worker]) -> None:
    device = Path("/dev/ptmx")
    if not os.access(device, os.R_OK):
        pytest.skip("this machine has no such device")
    worker = hostile("mount namespace")
    stand(worker, "Landlock")
    assert said(worker, "open_device", device) == ["EACCES"]
    assert said(worker, "open_device", "/dev/zero") == ["done"]
    assert said(hostile("mount namespace", "Landlock"), "open_device", device) == ["done"]


def test_without_a_pid_namespace_nobody_is_signalled_by_a_file_or_limited(hostile: Callable[..., Worker]) -> None:
    worker = hostile("PID namespace")
    stand(worker, "seccomp")
    assert said(worker, "take_over_signals", process=os.getpid()) == ["EPERM"] * 3
    assert said(hostile(*OFFERED), "take_over_signals", process=os.getpid()) == ["done"] * 3


@BY_NUMBER
def test_the_kernel_keeps_nothing_that_no_limit_counts(hostile: Callable[..., Worker]) -> None:
    worker = hostile()
    stand(worker, "seccomp")
    assert said(worker, "share_in_kernel") == ["EPERM", "done" if namespaces.DRIVER.exists() else "ENOSYS", "EPERM"]
    bare = hostile("seccomp")
    stand(bare, "PID namespace")  # what is left of System V's memory goes with it
    assert said(bare, "share_in_kernel")[:2] == ["done", "done"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "wall"), [("fill_files", "mount namespace"), ("share_memory", "limits of the system")]
)
def test_memory_counts_that_is_in_files_or_shared(hostile: Callable[..., Worker], mode: str, wall: str) -> None:
    worker = hostile(memory_limit=1 << 30)
    stand(worker, wall)
    died = worker.ask([call(mode)])
    assert isinstance(died, Died)
    assert died.how == "took more than 1.0 GiB of memory"


def test_memory_counts_that_is_in_no_folder(hostile: Callable[..., Worker]) -> None:
    worker = hostile("seccomp", memory_limit=1 << 30)  # which forbids it, but where a driver needs it
    died = worker.ask([call("fill_memfds")])
    assert isinstance(died, Died)
    assert died.how == "took more than 1.0 GiB of memory"


def _may_set_resources() -> bool:
    """Whether this process has the privilege CAP_SYS_RESOURCE."""
    status = Path("/proc/self/status").read_text() if Path("/proc/self/status").exists() else ""
    held = [line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")]
    return any(int(each, 16) >> 24 & 1 for each in held)


def test_the_system_ends_it_before_others(hostile: Callable[..., Worker]) -> None:
    worker = hostile()
    stand(worker, "limits of the system")
    assert said(worker, "be_spared")[0] == "1000"


@pytest.mark.skipif(not _may_set_resources(), reason="only who has CAP_SYS_RESOURCE can say so for good")
def test_the_system_ends_it_before_others_and_it_cannot_change_that(hostile: Callable[..., Worker]) -> None:
    worker = hostile()
    stand(worker, "limits of the system", "no capabilities")
    assert said(worker, "be_spared") == ("1000", ["EACCES"])


def test_gigabytes_of_output_are_an_outcome(hostile: Callable[..., Worker]) -> None:
    died = hostile().ask([call("print_much")])
    assert isinstance(died, Died)
    assert died.how == "printed more than 64 MiB"
    assert len(died.printed) < 10_000


def test_a_reply_is_not_read_where_it_is_larger_than_the_suite_may_hold(hostile: Callable[..., Worker]) -> None:
    worker = hostile(memory_limit=1 << 30)
    died = worker.ask([call("reply_much")])
    assert isinstance(died, Died)
    assert died.how == "replied with more than 0.25 GiB"
    assert answered(worker.ask([call("")]))[0].output is not None


def test_memory_is_limited_in_one_process_and_in_all(hostile: Callable[..., Worker]) -> None:
    worker = hostile(memory_limit=1 << 30)
    stand(worker, "limits of the system")
    raised = answered(worker.ask([call("take_own_memory")]))[0].raised
    assert "memory" in raised
    died = worker.ask([call("take_memory")])
    assert isinstance(died, Died)
    assert died.how == "took more than 1.0 GiB of memory"
    assert answered(worker.ask([call("")]))[0].output is not None


@pytest.mark.slow
def test_memory_is_counted_of_who_answers_at_once(hostile: Callable[..., Worker]) -> None:
    """Each call takes less time than a look at the memory is due after, where the machine is idle."""
    worker = hostile(memory_limit=1 << 30)
    found = []
    for _ in range(45):
        found.append(worker.ask([call("grow")]))
        time.sleep(LOOK_EVERY / 5)
        if isinstance(found[-1], Died):
            break
    assert isinstance(found[-1], Died), "1.4 GB were taken"
    assert found[-1].how == "took more than 1.0 GiB of memory"


def test_whoever_never_answers_is_ended(hostile: Callable[..., Worker]) -> None:
    assert hostile().ask([call("sleep")], time_limit=1) == Hung(1)


@pytest.mark.parametrize(
    ("mode", "how"), [("close", "exit status 1"), ("leave", "exit status 0"), ("abort", "SIGABRT")]
)
@pytest.mark.parametrize("lacking", [(), ("PID namespace",)], ids=["namespace", "descent"])
def test_how_it_ended_is_told_through_its_guard(
    hostile: Callable[..., Worker], mode: str, how: str, lacking: tuple[str, ...]
) -> None:
    worker = hostile(*lacking)
    died = worker.ask([call(mode)])
    assert isinstance(died, Died)
    assert died.how == how
    assert answered(worker.ask([call("")]))[0].output is not None


def test_a_reply_out_of_turn_is_an_outcome_at_once(hostile: Callable[..., Worker]) -> None:
    worker = hostile()
    worker.ready()
    before = time.monotonic()
    died = worker.ask([call("reply_early")])
    assert isinstance(died, Died)
    assert died.how.startswith("answered garbage: a reply out of turn")
    assert time.monotonic() - before < LIMIT / 2
    assert said(worker, "reply_later") == "soon"
    time.sleep(1.5)
    died = worker.ask([call("")])
    assert isinstance(died, Died)
    assert died.how.startswith("answered garbage: a reply out of turn")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds nothing to a core")
def test_the_cores_that_it_was_given_are_not_left(hostile: Callable[..., Worker]) -> None:
    every = sorted(os.sched_getaffinity(0))
    if len(every) < 2:
        pytest.skip("this machine has one core")
    worker = hostile(cores=[every[0]])
    stand(worker, "seccomp")
    assert said(worker, "take_cores") == [every[0]]
    worker.move([every[-1]])
    assert said(worker, "take_cores") == [every[-1]]


@pytest.mark.parametrize("name", ["id", "lost"])
def test_a_tensor_in_place_of_a_word_or_a_number_is_an_outcome(name: str) -> None:
    with Worker(HOSTILE, time_limit=LIMIT, service="odd:begin", environment={"PYTHONPATH": str(PROGRAMS)}) as worker:
        died = worker.request(name, {})
    assert isinstance(died, Died)
    assert died.how.startswith("answered garbage: ")


def test_no_device_is_lost_where_there_is_none() -> None:
    """It would have a fresh process for every question, in which nothing that was found of it before is left."""
    with Worker(HOSTILE, time_limit=LIMIT, service="odd:begin", environment={"PYTHONPATH": str(PROGRAMS)}) as worker:
        died = worker.request("word", {})
    assert isinstance(died, Died)
    assert died.how.startswith("answered garbage: ")


def test_leaving_while_it_is_imported_is_an_outcome(hostile: Callable[..., Worker]) -> None:
    died = hostile(target=str(SUBMISSIONS / "hostile_import.py") + ":attention").ready()
    assert isinstance(died, Died)
    assert died.how == "exit status 0"


def test_a_folder_of_its_own_is_there_and_goes(
    hostile: Callable[..., Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where no other test makes any
    worker = hostile()
    folder, temporary = said(worker, "where")
    assert Path(folder).name.startswith(PREFIX)
    assert temporary == folder
    assert said(worker, "move") == ""
    assert said(worker, "where")[0] == folder, "the next question finds it where it was"
    assert said(worker, "remove_room") == "removed"
    assert answered(worker.ask([call("")]))[0].output is not None
    worker.close()
    assert not Path(folder).exists()
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_without_a_mount_namespace_the_folder_goes_too(hostile: Callable[..., Worker]) -> None:
    worker = hostile("mount namespace", "Landlock")
    folder, _ = said(worker, "where")
    assert Path(folder).is_dir()
    with suppress(Exception):
        said(worker, "remove_room")
    worker.close()
    assert not Path(folder).exists()


def test_replaced_functions_hide_nothing(hostile: Callable[..., Worker]) -> None:
    worker = hostile(target=str(SUBMISSIONS / "hostile_mutation.py"))
    reply = answered(worker.ask([call("")]))[0]
    assert "query" in reply.changed
    later = hostile()
    with suppress(AssertionError):
        said(later, "replace_functions")
    assert isinstance(later.ask([call("")]), Died), "who breaks the worker's own tools has no answer"


@pytest.mark.parametrize("lacking", [(), ("PID namespace",), tuple(OFFERED)], ids=["all", "descent", "none"])
def test_honest_code_finds_what_it_needs(hostile: Callable[..., Worker], lacking: tuple[str, ...]) -> None:
    assert said(hostile(*lacking), "start_others") == ("hello\n", True, True, True)


def test_an_interpreter_of_its_own_has_the_same_walls(hostile: Callable[..., Worker], tmp_path: Path) -> None:
    forked, fresh = hostile(), hostile(device="cuda")
    for each in (forked, fresh):
        assert isinstance(each.ready(), Ready)
    assert fresh.walls == forked.walls
    pid = fresh.pid
    assert pid is not None
    fresh.close()
    assert gone(pid)


@pytest.mark.slow
def test_what_a_killed_suite_leaves_goes_by_itself_or_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostile: Callable[..., Worker]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    around = {"TMPDIR": str(tmp_path)}
    with run_program("asks_walled.py", HOSTILE, "stay", environment=around) as killed:
        assert killed.stdout
        folder, guard = killed.stdout.readline().split()
        members = {int(guard), *below(int(guard))}
        assert Path(folder).is_dir()
        time.sleep(1)  # until it has put something else in the place of the channel
        sweep.__wrapped__()
        assert Path(folder).is_dir(), "it is in use"
        killed.kill()
        killed.wait()
    assert all(gone(each) for each in members)
    sweep.cache_clear()
    assert isinstance(hostile().ready(), Ready)
    assert not Path(folder).exists()
