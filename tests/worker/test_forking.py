"""What workers are forked from, and what becomes of them when it ends."""

import errno
import gc
import os
import signal
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from workers import LIMIT, MISBEHAVES, TELLS, answered, call, gone, parent_of, run_program, told

from attnsuite.worker import forkserver
from attnsuite.worker.forkserver import await_servers, forget_servers, prewarm
from attnsuite.worker.worker import Crash, Worker

Write = Callable[[str, str], Path]


def test_workers_are_forked_from_one_process_for_each_environment() -> None:
    with Worker(TELLS) as one, Worker(TELLS) as alike, Worker(TELLS, environment={"OMP_NUM_THREADS": "3"}) as other:
        assert parent_of(one) == parent_of(alike) != os.getpid()
        assert parent_of(other) not in (parent_of(one), os.getpid())
        assert told(other, "OMP_NUM_THREADS") == "RuntimeError: 3"


def test_a_worker_on_some_cores_is_forked_from_what_counted_as_many() -> None:
    core = min(os.sched_getaffinity(0))
    with Worker(TELLS, cores=[core]) as bound, Worker(TELLS) as free:
        assert psutil.Process(parent_of(bound)).cpu_affinity() == [core]
        assert psutil.Process(parent_of(free)).cpu_affinity() == sorted(os.sched_getaffinity(0))


@pytest.mark.slow
def test_what_is_timed_pays_for_collecting_all_that_was_imported_and_what_is_weighed_does_not() -> None:
    bench = "attnsuite.benchmark.measure.bench"
    with (
        Worker(TELLS, service=f"{bench}:begin") as timed,
        Worker(TELLS, service=f"{bench}:begin_for_memory") as weighed,
    ):
        assert told(timed, "frozen") == "RuntimeError: 0"
        assert told(timed, "looked through") == "RuntimeError: 0"
        assert int(told(weighed, "frozen").removeprefix("RuntimeError: ")) > 100_000


@pytest.mark.slow
def test_servers_that_are_forgotten_serve_those_they_have_and_no_others() -> None:
    with Worker(TELLS) as earlier:
        server = parent_of(earlier)
        forget_servers()
        with Worker(TELLS) as later:
            assert parent_of(later) not in (server, os.getpid())
            assert told(earlier, "OMP_NUM_THREADS").startswith("RuntimeError: ")
    del earlier
    gc.collect()
    assert gone(server)


def test_a_worker_for_a_gpu_is_an_interpreter_of_its_own() -> None:
    with Worker(TELLS, "cuda") as worker:
        assert parent_of(worker) == os.getpid()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["unknown", "refused", "refused for others"])
def test_workers_are_fresh_where_the_system_cannot_wait_for_another_s_child(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    wait = os.pidfd_open

    def refuse(pid: int, flags: int = 0) -> int:
        if how == "refused for others" and pid == os.getpid():
            return wait(pid, flags)
        raise OSError(errno.ENOSYS, "Function not implemented")

    if how == "unknown":
        monkeypatch.delattr(os, "pidfd_open")
    else:
        monkeypatch.setattr(os, "pidfd_open", refuse)
    with Worker(TELLS) as worker:
        assert parent_of(worker) == os.getpid()


def test_a_fork_that_fails_is_no_end_of_others() -> None:
    with Worker(TELLS) as worker:
        server = parent_of(worker)
        with pytest.raises(OSError, match="Invalid argument"), Worker(TELLS, cores=[4096]) as nowhere:
            nowhere.ready()
        with Worker(TELLS) as another:
            assert parent_of(another) == server


@pytest.mark.slow
def test_a_server_that_stalls_is_left_and_nobody_is_said_to_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver, "FORK_LIMIT", 0.3)
    stalls = {"ATTNSUITE_TEST": "stalls"}
    with Worker(MISBEHAVES, time_limit=LIMIT, environment=stalls) as worker:
        server = parent_of(worker)
        os.kill(server, signal.SIGSTOP)
        with Worker(MISBEHAVES, time_limit=LIMIT, start_limit=LIMIT, environment=stalls) as another:
            assert parent_of(another) not in (server, os.getpid())
            assert answered(another.run_calls([call()]))
        assert gone(server)
        assert answered(worker.run_calls([call()]))


def test_a_number_that_may_be_another_s_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    with Worker(MISBEHAVES, time_limit=LIMIT) as worker:
        server, pid = parent_of(worker), worker.pid
        assert pid is not None
        for each in (server, pid):
            os.kill(each, signal.SIGKILL)
            assert gone(each)
        monkeypatch.setattr(os, "killpg", lambda pid, number: killed.append(pid))
    assert killed == []


@pytest.mark.slow
def test_a_parent_that_ignores_its_children_learns_how_a_worker_ended() -> None:
    with run_program("ignores_children.py", MISBEHAVES) as parent:
        assert parent.communicate()[0] == "exit status 3\n"


@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")  # the wait for it was interrupted
def test_a_second_interrupt_disturbs_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    server = forkserver.ForkServer(os.environ)

    def interrupted(popen: object, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "wait", interrupted)
        server.close()
    assert gone(server.pid)


def parent_in_a_fork(file: Path) -> int:
    """What a worker is forked from that a forked copy of this process starts, and asks something."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX, where another test imported it, warns of every fork
        child = os.fork()
    if not child:
        try:
            with Worker(TELLS) as worker:
                assert told(worker, "OMP_NUM_THREADS").startswith("RuntimeError")
                file.write_text(str(parent_of(worker)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return int(file.read_text())


def pid_of_last() -> int:
    """The number of the server that was asked for last."""
    return list(forkserver._servers.values())[-1].pid


def test_a_forked_process_uses_the_servers_of_its_parent_which_outlive_it(tmp_path: Path) -> None:
    prewarm({})
    server = pid_of_last()

    assert [parent_in_a_fork(tmp_path / name) for name in ("one", "other")] == [server, server]
    with Worker(TELLS) as worker:
        assert parent_of(worker) == server


@pytest.mark.slow
def test_a_forked_process_whose_parent_s_server_has_failed_starts_another(tmp_path: Path) -> None:
    prewarm({})
    server = pid_of_last()
    await_servers()
    os.kill(server, signal.SIGKILL)

    assert parent_in_a_fork(tmp_path / "told") not in (server, os.getpid())


def test_servers_that_were_expected_can_be_awaited() -> None:
    prewarm({"ATTNSUITE_TEST": "awaited"})
    server = list(forkserver._servers.values())[-1]
    await_servers()
    assert server._ready, "it has answered"


@pytest.mark.slow
def test_a_forked_worker_is_as_one_that_was_started_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = min(os.sched_getaffinity(0))
    with Worker(TELLS) as one, Worker(TELLS, cores=[core]) as other:
        for randomness in ("random", "NumPy's", "PyTorch's"):
            assert told(one, randomness) != told(other, randomness)
        assert told(one, "cores") == f"RuntimeError: {sorted(os.sched_getaffinity(0))}"
        assert told(other, "cores") == f"RuntimeError: {[core]}"
        server = parent_of(one)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another")
    monkeypatch.setenv("ATTNSUITE_CACHE", "elsewhere")
    with Worker(TELLS) as later:
        assert parent_of(later) == server
        assert told(later, "at") == f"RuntimeError: {tmp_path}"
        assert told(later, "PYTEST_CURRENT_TEST") == "RuntimeError: another"
        assert told(later, "ATTNSUITE_CACHE") == "RuntimeError: elsewhere"
    monkeypatch.setenv("ATTNSUITE_TEST", "new")
    with Worker(TELLS) as elsewhere:
        assert parent_of(elsewhere) != server
        assert told(elsewhere, "ATTNSUITE_TEST") == "RuntimeError: new"


def test_what_workers_are_forked_from_may_die() -> None:
    with Worker(MISBEHAVES, time_limit=LIMIT) as worker:
        server = parent_of(worker)
        os.kill(server, signal.SIGKILL)
        assert answered(worker.run_calls([call()])), "those that live go on"
        crash = worker.run_calls([call("exits")])
        assert crash == Crash("ended with an unknown status")
        assert answered(worker.run_calls([call()])), "and others start"
    with Worker(MISBEHAVES, time_limit=LIMIT) as worker:
        assert parent_of(worker) not in (server, os.getpid())
