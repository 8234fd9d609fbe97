"""Asking an implementation, in this process and in its own: whatever it does is an answer."""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from suite.asking import Call, Reply
from suite.records import UsageError
from suite.registry import Broken, Missing, find
from suite.worker import Died, Hung, Ready, Worker, ask, await_servers, expect, forget_servers, forkserver, process
from suite.worker.forkserver import server_of
from suite.worker.wire import DTYPES, Garbage, pack, unpack

Write = Callable[[str, str], Path]

LIMIT = 60.0
"""Seconds for answers that come at once: the machine that runs the tests may be busy."""

SUBMISSION = '''
"""Misbehaves on demand."""
import os, signal, socket, subprocess, sys, threading, time
import torch

def channel():
    links = {int(fd): os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")}
    return next(fd for fd, link in links.items() if os.path.lexists(link) and "socket" in os.readlink(link))

def attention(query, key, value, *, mode="value", attn_mask=None, file=""):
    if mode == "value":
        return value.clone()
    if mode == "segmentation fault":
        import ctypes
        print("these are my last words")
        ctypes.string_at(0)
    if mode == "exit":
        os._exit(3)
    if mode == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "loop":
        while True: pass
    if mode == "fork":
        child = subprocess.Popen(["sleep", "600"])
        open(file, "w").write(str(child.pid))
        os._exit(4)
    if mode == "fork and hold":
        if os.fork() == 0:
            time.sleep(600)
        os._exit(5)
    if mode == "escape":
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open(file, "w").write(str(os.getpid()))
                os.closerange(0, 64)
                time.sleep(600)
            os._exit(0)
        while not (os.path.exists(file) and open(file).read()):
            time.sleep(0.01)
        return value.clone()
    if mode == "close":
        os.closerange(3, 64)
        time.sleep(600)
    if mode == "garbage on stdout":
        for stream in (1, 2):
            os.write(stream, b"\\x00{}\\n" * 100)
        print("{}" * 200_000)
        return value.clone()
    if mode == "garbage on the channel":
        os.write(channel(), b"\\xff" * 64)
        time.sleep(600)
    if mode == "read stdin":
        assert sys.stdin.read() == ""
        return value.clone()
    if mode == "interrupt":
        raise KeyboardInterrupt("mine")
    if mode == "quit":
        sys.exit(7)
    if mode == "recurse":
        return attention(query, key, value, mode=mode)
    if mode == "environment":
        return torch.tensor(float(os.environ["ATTNSUITE_TEST"]))
    if mode == "deep thread":
        threading.Thread(target=sys.exit).start()
        return value.clone()
    raise ValueError(mode)
'''


def call(mode: str = "value", value: Tensor | None = None, **more: Any) -> Call:
    query = torch.arange(24.0).reshape(2, 3, 4)
    options = more.pop("options", {}) | {"mode": mode}
    return Call({"query": query, "key": query + 1, "value": query + 2 if value is None else value}, options, **more)


FRESH = "ATTNSUITE_TEST_FRESH"


@pytest.fixture(scope="module", params=[False, True], ids=["forked", "fresh"])
def worker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    file = tmp_path_factory.mktemp("worker") / "kernel.py"
    file.write_text(SUBMISSION)
    environment = {"ATTNSUITE_TEST": "12", FRESH: str(request.param)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "server_of", lambda of, cores: None if of.get(FRESH) == "True" else server_of(of, cores))
        with Worker(str(file), time_limit=LIMIT, environment=environment) as worker:
            yield worker


def answered(answer: object) -> tuple[Reply, ...]:
    assert isinstance(answer, tuple), answer
    return answer


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208  names, not paths


def same(one: Tensor | None, other: Tensor | None) -> bool:
    """Every bit, and the layout."""
    if one is None or other is None:
        return one is other
    layouts = [(t.dtype, t.shape, t.stride(), t.storage_offset(), t.untyped_storage().nbytes()) for t in (one, other)]
    return layouts[0] == layouts[1] and bytes(one.untyped_storage()) == bytes(other.untyped_storage())  # type: ignore[call-overload]


# In its own process


def test_a_worker_answers_as_this_process_does() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4) for _ in range(3))
    mask = torch.rand(5, 5) > 0.3
    tensors = {"query": query, "key": key, "value": value, "attn_mask": mask}
    learning = Call(tensors, {"scale": 0.3}, gradient_of=("query", "value"), output_gradient=torch.randn(2, 3, 5, 4))
    calls = [learning, replace(learning, own_thread=True), replace(learning, same_storage=True, seed=3)]
    here = ask(scaled_dot_product_attention, calls)
    with Worker("torch.nn.functional:scaled_dot_product_attention", time_limit=LIMIT) as worker:
        there = answered(worker.ask(calls))
    for one, other in zip(here, there, strict=True):
        assert same(one.output, other.output)
        assert one.gradients.keys() == other.gradients.keys() == {"query", "value"}
        assert all(same(one.gradients[name], other.gradients[name]) for name in one.gradients)
        assert replace(one, output=None, gradients={}, seconds=0) == replace(
            other, output=None, gradients={}, seconds=0
        )
        assert other.seconds > 0


@pytest.mark.parametrize(
    ("mode", "how"),
    [
        ("segmentation fault", "SIGSEGV"),
        ("exit", "exit status 3"),
        ("kill", "SIGKILL"),
        ("close", "exit status 1"),
    ],
)
def test_a_death_is_an_answer_and_the_next_question_gets_a_fresh_process(worker: Worker, mode: str, how: str) -> None:
    died = worker.ask([call(), call(mode)])
    assert isinstance(died, Died)
    assert died.how == how
    if mode == "segmentation fault":
        assert str(died) == "died: SIGSEGV; the last it printed: these are my last words"
    if mode == "close":
        assert died.printed == "the channel to the suite was closed"
    assert answered(worker.ask([call()]))[0].output is not None


def test_an_endless_loop_ends_at_the_time_limit(worker: Worker) -> None:
    worker.ready()
    before = time.monotonic()
    hung = worker.ask([call("loop")], time_limit=1)
    assert 1 <= time.monotonic() - before < 10
    assert hung == Hung(1)
    assert str(hung) == "hung: no answer within 1 s"
    assert answered(worker.ask([call()]))


def test_all_that_a_submission_starts_dies_with_it(worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    died = worker.ask([call("fork", options={"file": str(file)})])
    assert isinstance(died, Died)
    assert died.how == "exit status 4"
    assert gone(int(file.read_text()))
    died = worker.ask([call("fork and hold")])
    assert isinstance(died, Died)
    assert died.how == "exit status 5", "its child holds the channel open, which deceives nobody"


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="this system does not tell what a process inherited"
)
def test_what_leaves_the_session_dies_with_it_too(tmp_path: Path) -> None:
    program, file = tmp_path / "kernel.py", tmp_path / "pid"
    program.write_text(SUBMISSION)
    with Worker(str(program), time_limit=LIMIT) as worker:
        answered(worker.ask([call("escape", options={"file": str(file)})]))
        escaped = int(file.read_text())
        assert os.getsid(escaped) != worker.pid
        assert Path(f"/proc/{escaped}").exists()

    assert gone(escaped)


def gone(pid: int) -> bool:
    """Whether the process ends within some seconds, with all of its threads; a zombie that nobody has reaped counts."""
    for _ in range(200):
        try:
            state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if state == "Z" and int(numbers[16]) <= 1:
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_garbage_on_stdout_disturbs_no_answer(worker: Worker, capfd: pytest.CaptureFixture[str]) -> None:
    assert same(answered(worker.ask([call("garbage on stdout")]))[0].output, call().tensors["value"])
    assert capfd.readouterr() == ("", "")


def test_garbage_on_the_channel_is_found_out(worker: Worker) -> None:
    died = worker.ask([call("garbage on the channel")])
    assert isinstance(died, Died)
    assert died.how == "answered garbage: a header of 18446744073709551615 bytes"
    assert answered(worker.ask([call()]))


@pytest.mark.parametrize(
    ("mode", "raised"),
    [
        ("interrupt", "KeyboardInterrupt: mine"),
        ("quit", "SystemExit: 7"),
        ("recurse", "RecursionError: maximum recursion depth exceeded"),
        ("unknown", "ValueError: unknown"),
    ],
)
def test_whatever_is_raised_is_an_answer(worker: Worker, mode: str, raised: str) -> None:
    replies = answered(worker.ask([call(mode), call()]))
    assert replies[0].raised.startswith(raised)
    assert replies[1].output is not None


def test_the_process_has_no_input_and_the_environment_that_was_asked_for(worker: Worker) -> None:
    replies = answered(worker.ask([call("read stdin"), call("environment"), call("deep thread")]))
    assert not any(reply.raised for reply in replies)
    assert replies[1].output == 12


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_every_dtype_crosses_bit_by_bit(worker: Worker, dtype: torch.dtype) -> None:
    content = torch.arange(96, dtype=torch.uint8) * 37
    if dtype is torch.bool:
        content = content % 2
    value = content.view(dtype)[: 48 // dtype.itemsize]  # arbitrary bits: NaNs with payloads among them
    assert same(answered(worker.ask([call(value=value)]))[0].output, value.clone())


def test_nan_payloads_and_negative_zeros_cross(worker: Worker) -> None:
    bits = torch.tensor([0x7FC00001, 0x7F800001, -0x00000001, -0x80000000, 0x7F800000], dtype=torch.int32)
    value = bits.view(torch.float32)
    output = answered(worker.ask([call(value=value)]))[0].output
    assert output is not None
    assert output.view(torch.int32).tolist() == bits.tolist()


def layouts() -> dict[str, Tensor]:
    base = torch.arange(60.0)
    return {
        "transposed": base.reshape(3, 4, 5).transpose(0, 2),
        "offset": base[7:19].reshape(3, 4),
        "strided": base[::7],
        "expanded": base[:5].expand(4, 3, 5),
        "empty": base[5:5],
        "empty rows": torch.empty(0, 3),
        "scalar": base[9],
        "padded": torch.as_strided(base, (2, 3), (20, 5), 3),
        "overlapping": torch.as_strided(base, (4, 4), (1, 1), 2),
        "conjugate": torch.complex(base, base).conj(),
        "learning": base.clone().requires_grad_(),
    }


@pytest.mark.parametrize("name", layouts())
def test_every_layout_crosses_with_its_storage(name: str) -> None:
    tensor = layouts()[name]
    message = {"tensor": tensor, "more": [{"x": (1, 2.5, True, None, "ü", float("-inf"))}]}
    arrived = through_bytes(b"".join(pack(message)))
    assert same(arrived["tensor"], tensor.detach().resolve_conj())
    assert arrived["more"] == message["more"]


def test_large_tensors_pass_both_ways(worker: Worker) -> None:
    value = torch.arange(25_000_000, dtype=torch.float32)  # 100 MB, where a socket holds 0.2
    output = answered(worker.ask([call(value=value)]))[0].output
    assert output is not None
    assert torch.equal(output, value)


def test_a_question_that_nobody_reads_ends_at_the_time_limit(worker: Worker) -> None:
    worker.ready()
    worker.suspend()
    hung = worker.ask([call(value=torch.zeros(25_000_000))], time_limit=1)
    assert hung == Hung(1)


def test_a_suspended_worker_goes_on(worker: Worker) -> None:
    worker.ready()
    worker.suspend()
    threading.Timer(0.3, worker.resume).start()
    assert answered(worker.ask([call()]))


def test_workers_leave_neither_processes_nor_descriptors(write: Write) -> None:
    pids = []
    file = write("kernel.py", SUBMISSION)
    with Worker(str(file), time_limit=LIMIT) as worker:  # what workers are forked from stays
        worker.ready()
    before = descriptors()
    with Worker(str(file), time_limit=LIMIT) as worker:
        for mode in ("exit", "value"):
            worker.ready()
            pids.append(worker.pid)
            worker.ask([call(mode)])
    abandoned = Worker(str(file))
    abandoned.start()
    pids.append(abandoned.pid)
    del abandoned
    assert descriptors() == before
    assert None not in pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_worker_leaves_when_its_parent_is_killed(write: Write, tmp_path: Path) -> None:
    file = write("kernel.py", SUBMISSION)
    program = write(
        "parent.py",
        f"""
        import psutil
        from suite.worker import Worker
        from test_worker import call
        worker = Worker({str(file)!r})
        worker.ready()
        print(worker.pid, psutil.Process(worker.pid).ppid(), flush=True)
        worker.ask([call("loop")])
        """,
    )
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root)}
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert parent.pid not in pids
        time.sleep(0.2)
        parent.send_signal(signal.SIGKILL)
    assert all(map(gone, pids)), "neither it nor what it was forked from"


def test_workers_start_from_many_threads(write: Write) -> None:
    file = write("kernel.py", SUBMISSION)

    def work(number: int) -> object:
        with Worker(str(file), time_limit=LIMIT) as worker:
            return worker.ask([call(value=torch.tensor(number))])

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(work, range(3)))
    assert [answered(answer)[0].output for answer in answers] == [0, 1, 2]


# Forking

TELLER = """
import gc, os, random, sys, numpy, torch
def attention(query, key, value, *, of):
    says = {"random": random.random, "NumPy's": numpy.random.rand, "PyTorch's": torch.initial_seed, "at": os.getcwd,
            "cores": lambda: sorted(os.sched_getaffinity(0)), "frozen": gc.get_freeze_count}
    raise RuntimeError(f"{says[of]() if of in says else os.environ.get(of)}")
"""


def told(worker: Worker, of: str) -> str:
    return answered(worker.ask([Call({name: torch.ones(1) for name in ("query", "key", "value")}, {"of": of})]))[
        0
    ].raised


def parent_of(worker: Worker) -> int:
    assert isinstance(worker.ready(), Ready)
    return psutil.Process(worker.pid).ppid()


def test_workers_are_forked_from_one_process_for_each_environment(write: Write) -> None:
    file = str(write("kernel.py", TELLER))
    with Worker(file) as one, Worker(file) as alike, Worker(file, environment={"OMP_NUM_THREADS": "3"}) as other:
        assert parent_of(one) == parent_of(alike) != os.getpid()
        assert parent_of(other) not in (parent_of(one), os.getpid())
        assert told(other, "OMP_NUM_THREADS") == "RuntimeError: 3"


def test_a_worker_on_some_cores_is_forked_from_what_counted_as_many(write: Write) -> None:
    file = str(write("kernel.py", TELLER))
    core = min(os.sched_getaffinity(0))
    with Worker(file, cores=[core]) as bound, Worker(file) as free:
        assert psutil.Process(parent_of(bound)).cpu_affinity() == [core]
        assert psutil.Process(parent_of(free)).cpu_affinity() == sorted(os.sched_getaffinity(0))


def test_what_is_measured_pays_for_collecting_all_that_was_imported(write: Write) -> None:
    with Worker(str(write("kernel.py", TELLER)), measures=True) as worker:
        assert told(worker, "frozen") == "RuntimeError: 0"


def test_nobody_is_started_otherwise_because_a_server_was_killed(write: Write) -> None:
    file = str(write("kernel.py", TELLER))
    with Worker(file) as worker:
        server = parent_of(worker)
        os.kill(server, signal.SIGKILL)
        with Worker(file) as another:
            assert parent_of(another) not in (server, os.getpid())


def test_servers_that_are_forgotten_serve_those_they_have_and_no_others(write: Write) -> None:
    file = str(write("kernel.py", TELLER))
    with Worker(file) as earlier:
        server = parent_of(earlier)
        forget_servers()
        with Worker(file) as later:
            assert parent_of(later) not in (server, os.getpid())
            assert told(earlier, "OMP_NUM_THREADS").startswith("RuntimeError: ")
    del earlier
    gc.collect()
    assert gone(server)


def test_a_worker_for_a_gpu_is_an_interpreter_of_its_own(write: Write) -> None:
    with Worker(str(write("kernel.py", TELLER)), "cuda") as worker:
        assert parent_of(worker) == os.getpid()


@pytest.mark.parametrize("how", ["unknown", "refused", "refused for others"])
def test_workers_are_fresh_where_the_system_cannot_wait_for_another_s_child(
    write: Write, monkeypatch: pytest.MonkeyPatch, how: str
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
    with Worker(str(write("kernel.py", TELLER))) as worker:
        assert parent_of(worker) == os.getpid()


def test_a_fork_that_fails_is_no_end_of_others(write: Write) -> None:
    file = str(write("kernel.py", TELLER))
    with Worker(file) as worker:
        server = parent_of(worker)
        with pytest.raises(OSError, match="Invalid argument"), Worker(file, cores=[4096]) as nowhere:
            nowhere.ready()
        with Worker(file) as another:
            assert parent_of(another) == server


def test_a_server_that_stalls_is_left_and_nobody_is_said_to_hang(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver, "ANSWER_LIMIT", 0.3)
    stalls = {"ATTNSUITE_TEST": "stalls"}
    file = str(write("kernel.py", SUBMISSION))
    with Worker(file, time_limit=LIMIT, environment=stalls) as worker:
        server = parent_of(worker)
        os.kill(server, signal.SIGSTOP)
        with Worker(file, time_limit=LIMIT, start_limit=LIMIT, environment=stalls) as another:
            assert parent_of(another) not in (server, os.getpid())
            assert answered(another.ask([call()]))
        assert gone(server)
        assert answered(worker.ask([call()]))


def test_a_number_that_may_be_another_s_is_not_killed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    with Worker(str(write("kernel.py", SUBMISSION)), time_limit=LIMIT) as worker:
        server, pid = parent_of(worker), worker.pid
        assert pid is not None
        for each in (server, pid):
            os.kill(each, signal.SIGKILL)
            assert gone(each)
        monkeypatch.setattr(os, "killpg", lambda pid, number: killed.append(pid))
    assert killed == []


def test_a_parent_that_ignores_its_children_learns_how_a_worker_ended(write: Write) -> None:
    file = write("kernel.py", SUBMISSION)
    program = f"""
        import signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        from suite.worker import Worker
        from test_worker import call
        with Worker({str(file)!r}) as worker:
            print(worker.ask([call("exit")]).how)
        """
    here = Path(__file__).parent
    ended = subprocess.run(
        [sys.executable, write("parent.py", program)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (here, here.parent.parent)))},
    )  # fmt: skip
    assert ended.stdout == "exit status 3\n", ended.stderr


def test_a_second_interrupt_disturbs_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    server = forkserver.ForkServer(os.environ)

    def interrupted(timeout: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(server._popen, "wait", interrupted)
        server.end()
    assert server._popen.wait(10) == -signal.SIGKILL


def test_servers_that_were_expected_can_be_awaited() -> None:
    expect({"ATTNSUITE_TEST": "awaited"})
    server = list(forkserver._servers.values())[-1]
    assert server._control.gettimeout() == forkserver.START_LIMIT
    await_servers()
    assert server._control.gettimeout() == forkserver.ANSWER_LIMIT, "it has answered"


def test_a_forked_worker_is_as_one_that_was_started_by_itself(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(write("kernel.py", TELLER))
    core = min(os.sched_getaffinity(0))
    with Worker(file) as one, Worker(file, cores=[core]) as other:
        for randomness in ("random", "NumPy's", "PyTorch's"):
            assert told(one, randomness) != told(other, randomness)
        assert told(one, "cores") == f"RuntimeError: {sorted(os.sched_getaffinity(0))}"
        assert told(other, "cores") == f"RuntimeError: {[core]}"
        server = parent_of(one)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another")
    with Worker(file) as later:
        assert parent_of(later) == server
        assert told(later, "at") == f"RuntimeError: {tmp_path}"
        assert told(later, "PYTEST_CURRENT_TEST") == "RuntimeError: another"
    monkeypatch.setenv("ATTNSUITE_TEST", "new")
    with Worker(file) as elsewhere:
        assert parent_of(elsewhere) != server
        assert told(elsewhere, "ATTNSUITE_TEST") == "RuntimeError: new"


def test_what_workers_are_forked_from_may_die(write: Write) -> None:
    file = str(write("kernel.py", SUBMISSION))
    with Worker(file, time_limit=LIMIT) as worker:
        server = parent_of(worker)
        os.kill(server, signal.SIGKILL)
        assert answered(worker.ask([call()])), "those that live go on"
        died = worker.ask([call("exit")])
        assert died == Died("nobody is left who knows how")
        assert answered(worker.ask([call()])), "and others start"
    with Worker(file, time_limit=LIMIT) as worker:
        assert parent_of(worker) not in (server, os.getpid())


# Starting


def test_starting_happens_in_the_background(write: Write, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    started = tmp_path / "started"
    file = write(
        "kernel.py",
        f"""
        import time, warnings, torch
        from pathlib import Path
        print("loud")
        warnings.warn("beware")
        torch.set_default_dtype(torch.float64)
        while not Path({str(started)!r}).exists():
            time.sleep(0.01)
        import neighbour
        def attention(query, key, value, **options):
            import late
            return torch.ones(2)
        """,
    )
    write("neighbour.py", "")
    write("late.py", "")
    with Worker(str(file), time_limit=LIMIT) as worker:
        worker.start()
        started.touch()  # a start that waits for the import does not come to this
        reply = answered(worker.ask([call()]))[0]
    assert reply.output is not None, reply.raised
    assert reply.output.dtype == torch.float32, "what an import changes is undone, here as in the parent"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("import nosuch", "ModuleNotFoundError: No module named 'nosuch'"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import os; print('adieu'); os._exit(9)", "died: exit status 9; the last it printed: adieu"),
        ("import time; time.sleep(600)", "hung: no answer within 4 s"),
    ],
)
def test_an_import_that_fails_is_every_answer(write: Write, text: str, answer: str) -> None:
    file = write("kernel.py", f"def attention(query, key, value): ...\n{text}")
    limit = 4 if "sleep" in text else LIMIT
    with Worker(str(file), start_limit=limit) as worker:
        assert str(worker.ready()) == answer
        before = time.monotonic()
        assert str(worker.ask([call()])) == answer
        assert time.monotonic() - before < 1, "it is not tried again"


def test_missing_and_broken_implementations_say_so(write: Write) -> None:
    missing = write(
        "m.py", "from suite import implementation\n@implementation(requires=['nosuch'])\ndef attention(): ..."
    )
    with Worker(str(missing)) as worker:
        assert worker.ask([call()]) == Missing(worker.declaration, "No module named 'nosuch'")
    broken = write("b.py", "def attention(:")
    with Worker(str(broken)) as worker:
        assert isinstance(worker.ready(), Broken)


def test_mistakes_of_the_user_are_usage_errors(write: Write) -> None:
    file = write("kernel.py", "attention = 3\ndef one(): ...\ndef two(): ...")
    with pytest.raises(UsageError, match="has one, two: name one"):
        Worker(str(file))
    with pytest.raises(UsageError, match="a worker runs one implementation, but 'torch_sdpa' names"):
        Worker("torch_sdpa")
    with Worker(f"{file}:attention") as worker, pytest.raises(UsageError, match="cannot be called: it is of type int"):
        worker.ready()


def test_a_ready_worker_knows_the_parameters(write: Write) -> None:
    file = write("kernel.py", "from functools import partial\nattention = partial(lambda query, *, scale, x: 0, x=1)")
    (declaration,) = find([f"{file}:attention"])
    assert declaration.parameters is None
    with Worker(declaration) as worker:
        assert isinstance(ready := worker.ready(), Ready), ready
        assert worker.declaration.parameters == ("query", "scale", "x")


# What comes back is not trusted


def through_bytes(content: bytes) -> Any:
    position = 0

    def read_into(buffer: memoryview) -> None:
        nonlocal position
        piece = content[position : position + buffer.nbytes]
        if len(piece) < buffer.nbytes:
            raise EOFError
        buffer[:] = piece
        position += buffer.nbytes

    return unpack(read_into)


def forged(header: object, rest: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">Q", len(text)) + text + rest


def tensor(*place: object, sizes: object = (16,)) -> bytes:
    return forged({"sizes": sizes, "message": {"$tensor": place}}, bytes(16))


@pytest.mark.parametrize(
    "content",
    [
        struct.pack(">Q", 1 << 40),
        forged(b"no json"),
        forged(b"[" * 100_000),
        forged(b"1" * 100_000),
        forged([]),
        forged({"sizes": [-1], "message": 0}),
        forged({"sizes": [1 << 60], "message": 0}),
        forged({"sizes": [True], "message": 0}),
        forged({"sizes": 3, "message": 0}),
        tensor(),
        tensor(0, "float32", [4], [1]),
        tensor(1, "float32", [4], [1], 0),
        tensor(-1, "float32", [4], [1], 0),
        tensor(0, "qint8", [4], [1], 0),
        tensor(0, [], [4], [1], 0),
        tensor(0, "float32", [5], [1], 0),
        tensor(0, "float32", [4], [1], 1),
        tensor(0, "float32", [2], [1 << 61], 0),
        tensor(0, "float32", [4], [-1], 3),
        tensor(0, "float32", [4], [1, 1], 0),
        tensor(0, "float32", "4", "1", 0),
        tensor(0, "float32", [1] * 65, [1] * 65, 0),
        tensor(0, "float64", [1], [1], 0, sizes=[15]),
        tensor(0, "float32", [1.0], [1], 0),
    ],
)
def test_a_forged_message_is_garbage(content: bytes) -> None:
    with pytest.raises(Garbage):
        through_bytes(content)


def test_a_forged_tensor_keeps_within_its_storage() -> None:
    arrived = through_bytes(tensor(0, "float32", [2, 2], [2, 1], 0))
    assert arrived.tolist() == [[0, 0], [0, 0]]


class Forger:
    """Stands in for a process, and answers what it is told."""

    printed = ""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def forget(self) -> None: ...
    def send(self, message: Any, deadline: float) -> None: ...
    def end(self, grace: float = 0) -> str:
        return ""

    def receive(self, deadline: float) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (None, "no answer to this question"),
        ({"id": 2, "answer": []}, "no answer to this question"),
        ({"id": 1, "answer": []}, "not 1 replies"),
        ({"id": 1, "answer": [{}]}, "a reply that is none"),
        ({"id": 1, "answer": [{"output": 3}]}, "a reply whose output is none"),
        ({"id": 1, "answer": [{"seconds": float("nan")}]}, "a reply whose seconds is none"),
        ({"id": 1, "answer": [{"changed": ["query"]}]}, "a reply whose changed is none"),
        ({"id": 1, "answer": [{"gradients": {"query": 0}}]}, "a reply whose gradients is none"),
    ],
)
def test_a_forged_reply_is_garbage(answer: Any, complaint: str) -> None:
    honest = Reply().__dict__
    if answer and answer.get("answer") and answer["answer"][0]:
        answer = answer | {"answer": [honest | answer["answer"][0]]}
    worker = Worker("attention/matmul")
    worker._state, worker._process = Ready(worker.declaration), Forger(answer)  # type: ignore[assignment]
    assert worker.ask([call()]) == Died(f"answered garbage: {complaint}")


# In this process


def reply_to(function: Callable[..., Any], *calls: Call) -> Reply:
    return ask(function, calls or [call()])[-1]


def learning() -> Call:
    return call(gradient_of=("query", "value"), output_gradient=torch.ones(2, 3, 4))


class Marked(Tensor):
    pass


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (None, "None"),
        (3.5, "a float"),
        ((1, 2), "a tuple"),
        (torch.eye(2).numpy(), "a numpy.ndarray"),
        (torch.eye(2).to_sparse(), "a tensor of layout sparse_coo"),
        (torch.empty(2, device="meta"), "a tensor without data (device meta)"),
    ],
)
def test_an_output_that_is_no_tensor_is_named(output: object, kind: str) -> None:
    for question in (call(), learning()):
        reply = reply_to(lambda query, key, value, mode: output, question)
        assert (reply.output, reply.kind, reply.raised) == (None, kind, "")


@pytest.mark.filterwarnings("ignore")  # quantisation is deprecated, nested tensors are a prototype
def test_exotic_tensors_are_named() -> None:
    outputs = [
        torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ]
    kinds = [reply_to(lambda query, key, value, mode, output=output: output).kind for output in outputs]
    assert kinds == ["a quantised tensor (torch.qint8)", "a nested tensor"]


def test_a_subclass_comes_as_plain_numbers_and_is_named() -> None:
    reply = reply_to(lambda query, key, value, mode: value.as_subclass(Marked), learning())
    assert reply.kind == f"a subclass of Tensor, {__name__}.Marked"
    assert type(reply.output) is Tensor
    parameter = reply_to(lambda query, key, value, mode: torch.nn.Parameter(value))
    assert (parameter.kind, type(parameter.output)) == ("Tensor", Tensor)


def test_an_output_without_gradients_says_none_came() -> None:
    for function in (
        lambda query, key, value, mode: value.detach().clone(),
        lambda query, key, value, mode: (value > 0).to(torch.int64),
        lambda query, key, value, mode: value[:1] * query[:1],
    ):
        reply = reply_to(function, learning())
        assert reply.output is not None
        assert reply.gradients == {"query": None, "value": None}


def test_a_gradient_that_does_not_flow_is_none_and_the_others_come() -> None:
    reply = reply_to(lambda query, key, value, mode: value * 2, learning())
    assert reply.gradients["query"] is None
    assert torch.equal(reply.gradients["value"], torch.full((2, 3, 4), 2.0))  # type: ignore[arg-type]


def test_outputs_of_other_dtypes_come_as_they_are() -> None:
    for dtype in (torch.complex64, torch.bfloat16, torch.int8, torch.bool):
        reply = reply_to(lambda query, key, value, mode, dtype=dtype: value.to(dtype), learning())
        assert reply.output is not None
        assert reply.output.dtype == dtype


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError("two\nlines"), "ValueError: two lines"),
        (SystemExit(3), "SystemExit: 3"),
        (MemoryError(), "MemoryError"),
        (GeneratorExit("odd"), "GeneratorExit: odd"),
    ],
)
@pytest.mark.parametrize("own_thread", [False, True])
def test_whatever_is_raised_here_is_an_answer(error: BaseException, raised: str, own_thread: bool) -> None:
    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> None:
        raise error

    assert reply_to(function, call(own_thread=own_thread)).raised == raised


def test_declining_gives_the_reason() -> None:
    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> None:
        raise NotImplementedError("only: on Tuesdays")

    reply = reply_to(function)
    assert (reply.declined, reply.raised) == ("only: on Tuesdays", "")


@pytest.mark.parametrize("own_thread", [False, True])
def test_the_user_may_interrupt(own_thread: bool) -> None:
    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(function, [call(own_thread=own_thread)])


def test_inputs_that_were_changed_are_named() -> None:
    def writes(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        key += 0.5
        value.transpose_(0, 1)
        return query.clone()

    assert reply_to(writes).changed == ("key", "value")


def test_an_output_in_an_input_s_storage_is_named() -> None:
    assert reply_to(lambda query, key, value, mode: value[1:]).aliased == ("value",)
    assert reply_to(lambda query, key, value, mode: torch.from_dlpack(key)[1:]).aliased == ("key",)
    assert reply_to(lambda query, key, value, mode: value.clone()).aliased == ()


def test_an_output_that_a_later_call_changes_is_named() -> None:
    workspace = torch.zeros(40)

    def shared(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        return workspace[8:32].reshape(2, 3, 4).copy_(value)

    value = torch.zeros(2, 3, 4)
    first, second = ask(shared, [call(), call(value=value)])
    assert (first.overwritten, second.overwritten) == (True, False)
    assert torch.equal(first.output, call().tensors["value"])  # type: ignore[arg-type]
    assert not any(reply.overwritten for reply in ask(shared, [call(), call()]))


def test_the_same_storage_is_written_again_whatever_its_layout() -> None:
    pointers = []

    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        pointers.append(value.data_ptr())
        return value.clone()

    one, two = (torch.full((1, 4), number).expand(3, 4) for number in (1.0, 2.0))
    replies = ask(function, [call(value=one), call(value=two, same_storage=True)])
    assert pointers[0] == pointers[1]
    assert torch.equal(replies[1].output, two)  # type: ignore[arg-type]


def test_other_numbers_come_in_the_very_same_tensors() -> None:
    given = []

    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        given.append(value)
        return value.clone()

    ask(function, [call(), call(same_storage=True), call()])
    assert [value is given[0] for value in given] == [True, True, False]


def test_one_tensor_is_given_under_several_names() -> None:
    given = []

    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        given.append((query, key, value))
        return value.clone()

    one = torch.ones(2, 3, 4)
    several = replace(call(), tensors=dict.fromkeys(("query", "key", "value"), one))
    ask(function, [several, replace(several, same_tensor=("query", "key", "value"))])
    assert [len({id(tensor) for tensor in tensors}) for tensors in given] == [3, 1]


def test_a_call_leaves_no_trace_in_the_process() -> None:
    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(torch.get_num_threads() + 1)
        return value.clone()

    before = torch.get_default_dtype(), torch.get_num_threads()
    reply_to(function)
    assert (torch.get_default_dtype(), torch.get_num_threads()) == before


BUSY_AT_IMPORT = """
import subprocess, threading, time
child = subprocess.Popen(["sleep", "600"])
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()

def attention(query, key, value, *, attn_mask=None):
    return value + child.pid
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds nothing to a core")
def test_a_process_moves_to_other_cores_with_all_that_it_has_started(write: Write) -> None:
    every = sorted(os.sched_getaffinity(0))
    first, last = every[0], every[-1]
    if first == last:
        pytest.skip("this machine has one core")
    with Worker(str(write("busy.py", BUSY_AT_IMPORT)), cores=[first]) as worker:
        (reply,) = answered(worker.ask([Call({name: torch.zeros(1) for name in ("query", "key", "value")}, {})]))
        processes = [worker.pid, int(reply.output)]
        threads = [int(each.name) for process in processes for each in Path(f"/proc/{process}/task").iterdir()]
        assert len(threads) >= 3
        assert {frozenset(os.sched_getaffinity(each)) for each in threads} == {frozenset({first})}
        worker.move([last])
        assert {frozenset(os.sched_getaffinity(each)) for each in threads} == {frozenset({last})}
        worker.move([])
        assert os.sched_getaffinity(threads[0]) == {last}


FACTORY = """
built = []

def transformer(config, weights):
    if "scale" not in weights:
        raise ValueError(f"weights lack scale; there are {len(weights)}")
    built.append(1)
    return lambda x: x * weights["scale"] * config["times"] + len(built)
"""


@pytest.mark.parametrize("apart", [False, True], ids=["in this process", "in its own"])
def test_a_factory_s_model_is_built_once_and_called_again(write: Write, apart: bool) -> None:
    x = torch.ones(2)
    first = Call({"x": x}, {}, ("x",), config={"times": 3}, weights={"scale": torch.tensor(2.0)})
    calls = [first, Call({"x": 2 * x}, {}, ("x",), model_of=0), first]
    with Worker(str(write("model.py", FACTORY)) + ":transformer") as worker:
        space: dict[str, Any] = {}
        exec(FACTORY, space)
        replies = answered(worker.ask(calls) if apart else ask(space["transformer"], calls))

    assert [reply.output.tolist() for reply in replies if reply.output is not None] == [[7, 7], [13, 13], [8, 8]]


def test_a_model_that_cannot_be_built_raises_in_every_call() -> None:
    space: dict[str, Any] = {}
    exec(FACTORY, space)
    x = {"x": torch.ones(2)}
    calls = [Call(x, {}, ("x",), config={"times": 3}), Call(x, {}, ("x",), model_of=0)]

    assert [reply.raised for reply in ask(space["transformer"], calls)] == [
        "ValueError: weights lack scale; there are 0",
        "RuntimeError: there is no model, for it could not be built",
    ]
    (reply,) = ask(lambda config, weights: None, [calls[0]])
    assert (reply.raised, reply.kind, reply.no_model) == ("", "None", True)


def test_an_earlier_model_is_called_again() -> None:
    space: dict[str, Any] = {}
    exec(FACTORY, space)
    x = {"x": torch.ones(2)}
    first, other = (
        Call(x, {}, ("x",), config={"times": times}, weights={"scale": torch.tensor(2.0)}) for times in (3, 5)
    )

    replies = ask(space["transformer"], [first, other, Call(x, {}, ("x",), model_of=0)])

    assert [reply.output.tolist() for reply in replies if reply.output is not None] == [[7, 7], [12, 12], [8, 8]]


def test_a_probe_answers_zeros_and_refuses_other_dtypes() -> None:
    def function(x: Tensor, *, wide: bool, attention: Callable[..., Tensor] | None = None) -> Tensor:
        assert attention is not None
        x = x.double() if wide else x
        answer = attention(x, x, x[..., :1], attn_mask=None)
        return answer.new_ones(answer.shape) + answer

    calls = [Call({"x": torch.ones(2, 3)}, {"wide": wide}, ("x",), probed=True) for wide in (False, True)]

    right, wrong = ask(function, calls)

    assert "attention" in calls[0].arguments
    assert torch.equal(right.output, torch.ones(2, 1))  # type: ignore[arg-type]
    said = "the attention that was plugged in got a query of torch.float64, due is torch.float32"
    assert wrong.raised == f"TypeError: {said}"
