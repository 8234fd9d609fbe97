"""The two processes of a participant: what they answer, or do not, and where they lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
from processes import is_over
from workers import LINUX, SUBMISSIONS

from attnsuite import registry
from attnsuite.benchmark.connection import RemoteBench, no_result
from attnsuite.benchmark.entry import ProofTimes, Sample
from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.measure.messages import CallMemory, Job, NoResult, PreparedTask
from attnsuite.benchmark.participant import Participant, all_ready, is_approximate
from attnsuite.benchmark.processes import MEASURED, NUMBER, cores_of, prewarm_benchmark
from attnsuite.benchmark.request import Request
from attnsuite.benchmark.secret_inputs import secret_inputs_of
from attnsuite.benchmark.series import Benchmark
from attnsuite.cases.tensors import SECRET_NUMBERS
from attnsuite.contracts import contract
from attnsuite.registry import Broken, Declaration, Missing
from attnsuite.worker import forkserver
from attnsuite.worker.sandbox import detected
from attnsuite.worker.worker import Crash, Ready, Timeout, Worker

NAMELESS = Declaration("attention", "x", "x")
JOB = Job("attention", "documents/one-sentence", "float32", "forward")


@pytest.mark.parametrize(
    ("given", "status", "detail"),
    [
        (Missing(NAMELESS, "No module named 'x'"), "missing", "No module named 'x'"),
        (Broken(NAMELESS, "ImportError: x"), "error", "ImportError: x"),
        (Timeout(60.0), "timeout", "timeout: no result within 60 s; --time-limit 120 allows more"),
        (Crash("SIGSEGV"), "crashed", "crashed: SIGSEGV"),
        (Crash("SIGKILL"), "crashed", "crashed: SIGKILL; the system may have been out of memory"),
        (Crash("SIGABRT", "terminate called after throwing 'std::bad_alloc'"), "out_of_memory", None),
    ],
)
def test_a_process_that_does_not_answer_has_a_status(given: Any, status: str, detail: str | None) -> None:
    failed = no_result(given)

    assert failed.status == status
    assert detail is None or failed.detail == detail


# Memory, in processes that have called nothing yet

MIB = 2**20
Start = Callable[..., Participant]


@pytest.fixture
def start() -> Iterator[Start]:
    """Makes the only implementation of a target a participant, which ends with the test."""
    with ExitStack() as stack:

        def started(target: Path | str, threads: int = 1, *, trusted: bool = True) -> Participant:
            """Trusted: many of these submissions write beside themselves what they see."""
            (declaration,) = registry.find([str(target)])
            participant = Participant(declaration, threads=threads, memory_limit=2**33, trusted=trusted)
            stack.callback(participant.close)
            return participant

        yield started


def measure_memory(participant: Participant, workload: str) -> CallMemory:
    """The memory of a call, where it can be measured."""
    answer = participant.measure_memory(Job("attention", workload, "float32", "forward"))
    assert isinstance(answer, CallMemory), answer
    return answer


def for_memory(participant: Participant) -> RemoteBench:
    """A process as those in which memory is measured, with its imports done."""
    bench = participant._remote_bench(MEASURED, for_memory=True)
    participant._timing.append(bench)  # ends with the participant
    assert isinstance(bench.worker.ready(), Ready)
    return bench


def process_of(connection: Any) -> psutil.Process:
    """The process that a connection leads to."""
    assert isinstance(connection, RemoteBench)
    return psutil.Process(connection.worker.pid)


@pytest.fixture(params=["", "starts threads"])
def hoarder(request: pytest.FixtureRequest, start: Start, monkeypatch: pytest.MonkeyPatch) -> Participant:
    """A participant that keeps what it takes, and does something else besides."""
    monkeypatch.setenv("ATTNSUITE_TEST_HOARDER", request.param)
    return start(SUBMISSIONS / "hoarder.py")


@pytest.mark.slow
@LINUX
def test_what_one_call_leaves_behind_hides_nothing_of_the_next(hoarder: Participant) -> None:
    for workload in ("ladder/1k", "ladder/2k", "ladder/1k"):
        retained = measure_memory(hoarder, workload).memory["retained"]
        assert retained is not None
        assert 4 * MIB <= retained < 7 * MIB, workload


@LINUX
@pytest.mark.parametrize(("workload", "how"), [("vit/b16", "SIGSEGV"), ("documents/fashion-vit", "exit status 3")])
def test_a_death_while_memory_is_measured_is_an_answer(hoarder: Participant, workload: str, how: str) -> None:
    answer = hoarder.measure_memory(Job("attention", workload, "float32", "forward"))

    assert isinstance(answer, NoResult)
    assert answer.status == "crashed"
    assert how in answer.detail
    assert measure_memory(hoarder, "ladder/1k").memory, "the next question gets a process of its own"


@pytest.mark.slow
def test_the_time_of_a_processor_is_that_of_all_that_it_has_started(start: Start) -> None:
    participant = start(SUBMISSIONS / "starts_helpers.py")
    assert participant.used() == 0.0

    participant.prepare(JOB)

    assert participant.used() >= 0.5


@pytest.mark.skipif(
    not {"limits of the system", "no capabilities"} <= set(detected()), reason="this machine lacks these mechanisms"
)
def test_who_is_timed_cannot_take_back_its_limit_of_memory(start: Start) -> None:
    participant = start(SUBMISSIONS / "lifts_its_limit.py", trusted=False)

    answer = participant.prepare(JOB)

    assert isinstance(answer, NoResult)
    assert answer.detail == "RuntimeError: the limit stays"


@LINUX
def test_a_stranger_is_timed_and_weighed_behind_walls(start: Start) -> None:
    participant = start(SUBMISSIONS / "honest.py", trusted=False)
    assert isinstance(participant.prepare(Job("attention", "ladder/1k", "float32", "forward")), PreparedTask)
    weighed = measure_memory(participant, "ladder/1k")

    for bench in (participant._timing[0], for_memory(participant)):
        assert isinstance(bench, RemoteBench)
        assert set(bench.worker.mechanisms) >= {"limits of the system"}
    assert weighed.memory["resident"]


# Processes in turns


@LINUX
def test_two_processes_take_samples_in_turns_each_forked_from_what_lies_elsewhere(start: Start) -> None:
    participant = start("attention/matmul")
    participant.processes = 2
    participant.start()

    assert participant.ready() is None
    assert isinstance(participant.prepare(JOB), PreparedTask)
    assert participant.prepare_others(JOB) is None
    for process in (0, 1):
        participant.take_turn(process)
        assert isinstance(participant.sample(2_000_003, 1), Sample)

    both = list(map(process_of, participant._timing))
    assert len({each.pid for each in both}) == len({each.ppid() for each in both}) == 2
    assert participant.used() >= max(sum(each.cpu_times()[:2]) for each in both)
    participant.close()
    assert all(is_over(each.pid) for each in both)


@LINUX
def test_what_fails_in_its_second_process_alone_says_so(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "moody.py"
    file.write_text(
        "import os\nfrom torch.nn.functional import scaled_dot_product_attention\n\n\n"
        "def attention(query, key, value):\n"
        f"    if os.environ.get({NUMBER!r}):\n        raise ValueError('not twice')\n"
        "    return scaled_dot_product_attention(query, key, value)\n"
    )
    participant = start(file)
    participant.processes = 2

    assert isinstance(participant.prepare(JOB), PreparedTask)
    failed = participant.prepare_others(JOB)

    assert failed is not None
    assert (failed.status, failed.detail) == ("error", "in another process of its own: ValueError: not twice")


@pytest.mark.slow
def test_rows_say_which_process_took_a_sample_and_a_whole_profile_is_timed_in_two() -> None:
    declarations = registry.find(["attention/matmul", "attention/chunked"])
    request = Request(("documents/one-sentence",), "quick", budget=0.02, processes=2)

    rows = [row for _, found in Benchmark(contract("attention"), declarations, request).run() for row in found]

    assert {row.status for row in rows} == {"measured"}
    for row in rows:
        assert len(row.processes) == len(row.seconds)
        assert abs(row.processes.count("0") - row.processes.count("1")) <= 1
    assert (Request().in_processes, Request(("ladder",)).in_processes) == (2, 1)
    assert Request(shapes=("l=16",)).in_processes == 1
    assert "2 processes" in request.words


@LINUX
@pytest.mark.parametrize("trusted", [True, False])
def test_each_answer_on_secret_numbers_has_its_time_and_one_comes_along(
    start: Start, write: Callable[[str, str], Path], trusted: bool
) -> None:
    kernel = "    time.sleep(0.02)\n    return torch.nn.functional.scaled_dot_product_attention(query, key, value)\n"
    file = write("slow.py", f"import time\nimport torch\n\n\ndef attention(query, key, value):\n{kernel}")
    participant, numbers = start(file, trusted=trusted), SECRET_NUMBERS[77:82]
    assert isinstance(participant.prepare(JOB), PreparedTask)

    answer = participant.proof_times(numbers, numbers[3], warm=2)

    assert isinstance(answer, ProofTimes), answer
    assert (len(answer.seconds), len(answer.idle)) == (5, 5)
    assert min(answer.seconds) >= 0.02 > min(answer.idle) > 0
    rows, found = {"output": list(range(6))}, {"output": answer.rows["output"]}
    verdict = contract(JOB.contract).workload(JOB.workload).verdict
    assert verdict("float32", "forward", numbers[3], rows, found).status == "passed"
    assert verdict("float32", "forward", numbers[2], rows, found).status == "failed"


# Where things lie


@LINUX
def test_what_is_asked_timed_and_weighed_is_forked_from_what_was_expected(start: Start) -> None:
    def begun() -> set[int]:
        return {child.pid for child in psutil.Process().children()}

    participant = start("attention/matmul", 2)
    declaration = participant.declaration
    bench = Benchmark(contract("attention"), [declaration], Request(("documents/one-sentence",), "quick", threads=(2,)))
    prewarm_benchmark(2, ["attention"])
    expected = begun()
    gate = Gate(bench.contract, "cpu", 60.0, threads=2)
    with replace(gate._session(), cores=cores_of(2, 0))._worker(declaration, trusted=False) as asked:
        assert isinstance(asked.ready(), Ready)
        parents = [psutil.Process(asked.pid).ppid()]
    participant.start()
    assert participant.ready() is None

    parents += [process_of(bench).ppid() for bench in (participant._timing[0], for_memory(participant))]

    assert set(parents) <= expected
    assert len(set(parents)) == 1, "PyTorch is imported once for all"
    assert begun() <= expected, "nothing was started beside it"


@LINUX
@pytest.mark.parametrize(
    ("module", "backward", "there"),
    [
        ("sympy", False, False),  # 0.4 s, for gradients alone
        ("sympy", True, True),
        ("attnsuite.contracts.attention.workloads", False, True),
    ],
)
def test_what_timed_calls_need_is_imported_once_for_all_and_nothing_more(
    module: str, backward: bool, there: bool, write: Callable[[str, str], Path]
) -> None:
    """Each process would import it before its first call, one after the other."""
    file = write("looks.py", f"import sys\nraise ImportError({module!r} in sys.modules)\ndef attention(q, k, v): ...\n")
    request = Request(("documents/one-sentence",), backward=backward)
    bench = Benchmark(contract("attention"), registry.find([str(file)]), request)
    forkserver.forget_servers()  # earlier tests time gradients
    with ExitStack() as stack:
        _, unready, _ = all_ready(bench._started(1, stack), bench.contract, bench.implementations, stack)

        assert [failed.detail for failed in unready.values()] == [f"ImportError: {there} (looks.py, line 2)"]


def test_nothing_is_imported_any_more_when_the_first_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    (declaration,) = registry.find(["attention/matmul"])
    bench = Benchmark(contract("attention"), [declaration], Request(("documents/one-sentence",), "quick"))
    monkeypatch.setenv("ATTNSUITE_TEST", "imports")  # so that no server is there that would do
    before = set(forkserver._servers.values())
    prewarm_benchmark(1, ["attention"])
    with ExitStack() as stack:
        all_ready(bench._started(1, stack), bench.contract, bench.implementations, stack)
        begun = set(forkserver._servers.values()) - before
        assert begun
        assert all(server._ready for server in begun), "all have answered"


def test_from_round_to_round_inputs_and_what_is_allocated_lie_elsewhere(
    start: Start, submission: Callable[[str], Path]
) -> None:
    file = submission("surveyor.py")
    participant = start(file)
    prepared = participant.prepare(Job("attention", "vit/b16", "float32", "forward"))
    assert isinstance(prepared, PreparedTask)
    places: list[list[str]] = []
    for number in range(40):
        file.with_suffix(".txt").unlink()
        assert isinstance(participant.sample(number, 1), Sample)
        places.append(file.with_suffix(".txt").read_text().splitlines()[-1].split())  # those before warm the cache

    for of_round in zip(*places, strict=True):
        assert len(set(of_round)) > 10, "within a page, that is: 64 places are possible"


@LINUX
def test_it_is_woken_once_for_a_sample_and_not_while_a_clock_runs(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a walled one has started is searched for then, which takes longer than a short sample may be off."""
    participant, woken = start(SUBMISSIONS / "honest.py"), list[Worker]()
    prepared = participant.prepare(JOB)
    assert isinstance(prepared, PreparedTask)
    resume = Worker.resume
    monkeypatch.setattr(Worker, "resume", lambda self: (woken.append(self), resume(self)))

    for _ in range(3):
        assert isinstance(participant.sample(5, prepared.calls), Sample)

    assert len(woken) == 3


@pytest.mark.parametrize(("of", "approximate"), [("transformer", True), ("attention", False)])
def test_only_a_contract_that_has_it_lets_errors_be_measured_alone(of: str, approximate: bool) -> None:
    """A row of attention does not show how far off its answers are."""
    declaration = Declaration(of, "a", "a", conventions={"accuracy": "measured"})

    assert is_approximate(declaration) is approximate


def test_conventions_may_have_choices_of_their_own_for_each_feature() -> None:
    conventions = {"causal": "lower_right", "empty_row": {"causal": "mean", "bool_mask": "nan"}}
    job = Job("attention", "documents/one-sentence", "float32", "forward", conventions=conventions)

    assert secret_inputs_of(job) is secret_inputs_of(job)
    assert set(secret_inputs_of(job).inputs(SECRET_NUMBERS[0])) == {"query", "key", "value"}
