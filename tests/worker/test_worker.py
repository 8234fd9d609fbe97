"""Asking an implementation in its own process: whatever it does is an answer."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from workers import (
    LIMIT,
    MISBEHAVES,
    PROGRAMS,
    SUBMISSIONS,
    answered,
    call,
    descriptors,
    gone,
    run_program,
    same,
    without_place,
)

from attnsuite.cases import Call
from attnsuite.worker import process
from attnsuite.worker.calling import run_calls
from attnsuite.worker.forkserver import server_of
from attnsuite.worker.sandbox.processes import descendants
from attnsuite.worker.worker import Crash, Ready, Timeout, Worker

Write = Callable[[str, str], Path]
FRESH = "ATTNSUITE_TEST_FRESH"
"""An environment variable of workers that are to be started by themselves."""


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["forked", "fresh"])
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    environment = {"ATTNSUITE_TEST": "12", FRESH: str(request.param)}

    def server(added: Any, *more: Any) -> Any:
        return None if added.get(FRESH) == "True" else server_of(added, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "server_of", server)
        with Worker(MISBEHAVES, time_limit=LIMIT, environment=environment) as worker:
            yield worker


def test_a_worker_answers_as_this_process_does() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4) for _ in range(3))
    tensors = {"query": query, "key": key, "value": value, "attn_mask": torch.rand(5, 5) > 0.3}
    learning = Call(tensors, {"scale": 0.3}, gradient_of=("query", "value"), output_gradient=torch.randn(2, 3, 5, 4))
    plain = replace(learning, gradient_of=(), output_gradient=None)
    calls = [
        *(learning, replace(learning, own_thread=True), replace(learning, same_storage=True, seed=3)),
        *(replace(plain, requires_gradient=("query", "value")), replace(learning, backward_of=3)),
        *(replace(plain, inference=True), replace(plain, threads=2, default_dtype="float64")),
        *(replace(plain, at_once=True), replace(plain, at_once=True), replace(plain, written=True)),
    ]

    here = run_calls(scaled_dot_product_attention, calls)
    with Worker("torch.nn.functional:scaled_dot_product_attention", time_limit=LIMIT) as worker:
        there = answered(worker.run_calls(calls))

    for one, other in zip(here, there, strict=True):
        assert same(one.output, other.output)
        assert one.gradients.keys() == other.gradients.keys()
        assert all(same(one.gradients[name], other.gradients[name]) for name in one.gradients)
        rest = [replace(reply, output=None, gradients={}, seconds=0) for reply in (one, other)]
        assert rest[0] == rest[1]
        assert other.seconds > 0


DEATHS = {
    "segmentation_fault": "crashed: SIGSEGV; the last it printed: these are my last words",
    "exits": "crashed: exit status 3",
    "kills_itself": "crashed: SIGKILL",
    "close": "crashed: exit status 1; the last it printed: the channel to the suite was closed",
    "forks_and_holds": "crashed: exit status 5",  # its child holds the channel open, which deceives nobody
    "reply_early": "crashed: invalid reply: a reply out of turn: something other than the worker wrote to its channel",
}


@pytest.mark.parametrize("mode", DEATHS)
def test_a_death_is_an_answer_and_the_next_call_gets_a_fresh_process(worker: Worker, mode: str) -> None:
    crash = worker.run_calls([call(), call(mode)])
    assert isinstance(crash, Crash)
    assert str(crash) == DEATHS[mode]
    assert answered(worker.run_calls([call()]))[0].output is not None


def test_an_endless_loop_ends_at_the_time_limit(worker: Worker) -> None:
    worker.ready()
    before = time.monotonic()
    hung = worker.run_calls([call("loops")], time_limit=1)
    assert 1 <= time.monotonic() - before < 10
    assert hung == Timeout(1)
    assert str(hung) == "timeout: no result within 1 s; --time-limit 2 allows more"


@pytest.mark.slow
def test_what_is_done_meanwhile_is_not_held_against_the_process(worker: Worker) -> None:
    worker.ready()

    def keeps_it_from_answering() -> None:
        worker.suspend()
        time.sleep(1.2)
        worker.resume()

    assert answered(worker.run_calls([call()], keeps_it_from_answering, time_limit=1))
    assert worker.run_calls([call("loops")], lambda: time.sleep(0.5), time_limit=1) == Timeout(1)


@pytest.mark.slow
def test_what_fails_meanwhile_is_the_suite_s_and_the_process_answers_the_next_call(worker: Worker) -> None:
    with pytest.raises(ZeroDivisionError):
        worker.run_calls([call()], lambda: 1 / 0)

    assert answered(worker.run_calls([call()]))


@pytest.mark.parametrize("mode", ["forks", "escapes"])
def test_all_that_a_submission_starts_dies_with_it(worker: Worker, tmp_path: Path, mode: str) -> None:
    file = tmp_path / "pid"
    worker.run_calls([call(mode, options={"place": str(file)})])
    worker.close()
    assert gone(int(file.read_text()))


def test_garbage_on_stdout_disturbs_no_answer(worker: Worker, capfd: pytest.CaptureFixture[str]) -> None:
    assert same(answered(worker.run_calls([call("prints_garbage")]))[0].output, call().tensors["value"])
    assert capfd.readouterr() == ("", "")


RAISED = {
    "interrupts": "KeyboardInterrupt: mine",
    "quits": "SystemExit: 7",
    "recurses": "RecursionError: maximum recursion depth exceeded",
    "unknown": "KeyError: 'unknown'",
    "reads_stdin": "RuntimeError: ''",
    "starts_a_thread_that_exits": "",
}


@pytest.mark.parametrize("mode", RAISED)
def test_whatever_is_raised_is_an_answer(worker: Worker, mode: str) -> None:
    replies = answered(worker.run_calls([call(mode), call()]))
    assert replies[0].error.startswith(RAISED[mode])
    assert bool(replies[0].error) == bool(RAISED[mode])
    assert replies[1].output is not None


def test_the_process_has_the_environment_that_was_asked_for(worker: Worker) -> None:
    (reply,) = answered(worker.run_calls([call("environment", options={"place": "ATTNSUITE_TEST"})]))
    assert without_place(reply.error) == "RuntimeError: '12'"


def test_large_tensors_pass_both_ways(worker: Worker) -> None:
    value = torch.arange(25_000_000, dtype=torch.float32)  # 100 MB, where a socket holds 0.2
    output = answered(worker.run_calls([call(value=value)]))[0].output
    assert output is not None
    assert torch.equal(output, value)


def test_a_call_that_is_not_read_ends_at_the_time_limit(worker: Worker) -> None:
    worker.ready()
    worker.suspend()
    assert worker.run_calls([call(value=torch.zeros(25_000_000))], time_limit=1) == Timeout(1)


@pytest.mark.slow
def test_a_suspended_worker_goes_on(worker: Worker) -> None:
    worker.ready()
    worker.suspend()
    threading.Timer(0.3, worker.resume).start()
    assert answered(worker.run_calls([call()]))


def test_a_worker_without_a_service_answers_calls_alone(worker: Worker) -> None:
    crash = worker.request("prepare", {})
    assert isinstance(crash, Crash)
    assert str(crash).endswith("ValueError: unknown verb 'prepare'; this worker supports 'run_calls' alone")


def test_workers_leave_neither_processes_nor_descriptors() -> None:
    pids = []
    with Worker(MISBEHAVES, time_limit=LIMIT) as worker:  # what workers are forked from stays
        worker.ready()
    before = descriptors()
    with Worker(MISBEHAVES, time_limit=LIMIT) as worker:
        for mode in ("exits", ""):
            worker.ready()
            pids.append(worker.pid)
            worker.run_calls([call(mode)])
    abandoned = Worker(MISBEHAVES)
    abandoned.start()
    pids.append(abandoned.pid)
    del abandoned
    assert descriptors() == before
    assert None not in pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.slow
def test_a_worker_and_its_server_leave_when_their_parent_is_killed() -> None:
    with run_program("asks_for_ever.py", MISBEHAVES) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert parent.pid not in pids
        time.sleep(0.2)
        parent.send_signal(signal.SIGKILL)
    assert all(map(gone, pids))


def test_workers_start_from_many_threads() -> None:
    def work(number: int) -> object:
        with Worker(MISBEHAVES, time_limit=LIMIT) as worker:
            return worker.run_calls([call(value=torch.tensor(number))])

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(work, range(3)))
    assert [answered(answer)[0].output for answer in answers] == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds nothing to a core")
def test_a_process_moves_to_other_cores_with_all_that_it_has_started() -> None:
    first, last = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
    if first == last:
        pytest.skip("this machine has one core")
    with Worker(str(SUBMISSIONS / "busy_at_import.py"), cores=[first]) as worker:
        (reply,) = answered(worker.run_calls([Call({name: torch.zeros(1) for name in ("query", "key", "value")}, {})]))
        assert worker.pid is not None
        processes = [worker.pid, *descendants(worker.pid)]
        assert int(reply.output) in processes
        threads = [int(each.name) for number in processes for each in Path(f"/proc/{number}/task").iterdir()]
        assert len(threads) >= 4
        for cores, expected in ((None, first), ([last], last), ([], last)):
            if cores is not None:
                worker.move(cores)
            assert {frozenset(os.sched_getaffinity(each)) for each in threads} == {frozenset({expected})}


@pytest.mark.parametrize("importing", [False, True])
def test_once_all_is_over_no_answer_is_waited_for(importing: bool, write: Write) -> None:
    """Ctrl-C does not wait an hour for an answer."""
    sleeps = "import time\ntime.sleep(3600)\ndef attention(query, key, value): ..."
    text = sleeps if importing else "import time\ndef attention(query, key, value, **more): time.sleep(3600)"
    cancelled = threading.Event()
    with Worker(str(write("sleeps.py", text)), time_limit=3600.0, start_limit=3600.0, cancelled=cancelled) as worker:
        if not importing:
            worker.ready()
        threading.Timer(0.5, cancelled.set).start()
        assert isinstance(worker.run_calls([call()]), Crash)
        assert worker.pid is None


@pytest.mark.parametrize("device", ["cpu", "cuda"], ids=["forked", "fresh"])
def test_the_error_that_ends_a_worker_is_the_last_that_it_prints(device: str) -> None:
    """Not the complaint of the thread that watches the channel, which closes as the process ends."""
    service = {"service": "unsendable:begin", "environment": {"PYTHONPATH": str(PROGRAMS)}}
    with Worker(MISBEHAVES, device, time_limit=LIMIT, **service) as worker:  # type: ignore[arg-type]
        crash = worker.request("anything", {})
    assert str(crash) == "crashed: exit status 1; the last it printed: TypeError: a object cannot be sent"


@pytest.mark.slow
def test_a_process_that_can_use_its_device_no_more_is_not_asked_again() -> None:
    with Worker(str(SUBMISSIONS / "loses_its_device.py"), "cuda", time_limit=LIMIT) as worker:
        worker.ready()
        first = worker.pid
        answered(worker.run_calls([call()]))  # it is the process's last answer
        assert first is not None
        assert worker.pid is None
        assert gone(first)
        assert isinstance(worker.ready(), Ready)
        assert worker.pid not in (None, first)
        crash = worker.request("prepare", {})
        assert str(crash).partition(";")[0] == "crashed: lost its CUDA context: CUDA error: misaligned address"
        assert worker.pid is None
