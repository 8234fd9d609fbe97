"""What the process of an implementation answers, or does not, and what it says of memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
import torch

from suite import registry
from suite.benchmark import Benchmark, Request
from suite.benchmark.member import Member, checked, lost
from suite.contracts import contract
from suite.measure.memory import METERS
from suite.registry import Broken, Declaration, Missing
from suite.worker import Died, Hung, Ready, Worker, forkserver

# What a process answers

NOTHING_TAKEN = dict.fromkeys(METERS, 0.0)
HONEST = {"making": {}, "first_call": 1.0, "warm_up": 0.1, "expected": 0.001, "calls": 5}


@pytest.mark.parametrize(
    ("verb", "answer", "detail"),
    [
        ("sample", {"seconds": 0.0, "warmed": 0.0, "made": 0.0}, "seconds 0.0"),
        ("sample", {"seconds": -1.0, "warmed": 0.0, "made": 0.0}, "seconds -1.0"),
        ("sample", {"seconds": math.nan, "warmed": 0.0, "made": 0.0}, "seconds nan"),
        ("sample", {"seconds": math.inf, "warmed": 0.0, "made": 0.0}, "seconds inf"),
        ("sample", {"seconds": "fast", "warmed": 0.0, "made": 0.0}, "seconds 'fast'"),
        ("sample", {"seconds": True, "warmed": 0.0, "made": 0.0}, "seconds True"),
        ("sample", {"seconds": 1.0, "warmed": -1.0, "made": 0.0}, "warmed -1.0"),
        ("sample", {"seconds": 1.0, "warmed": 0.0, "made": -1.0}, "made -1.0"),
        ("sample", {}, "seconds None"),
        ("sample", {"seconds": 5e-324, "warmed": 0.0, "made": 0.0}, "seconds 5e-324"),
        ("sample", {"seconds": 1e300, "warmed": 0.0, "made": 0.0}, "seconds 1e+300"),
        ("prepare", {**HONEST, "calls": 0}, "calls 0"),
        ("prepare", {**HONEST, "calls": 10**30}, f"calls {10**30}"),
        ("prepare", {**HONEST, "making": {"factory": -1.0}}, "making {'factory': -1.0}"),
        ("prepare", {**HONEST, "calls": 2.5}, "calls 2.5"),
        ("prepare", {**HONEST, "first_call": None}, "first_call None"),
        ("prepare", {**HONEST, "expected": 0.0}, "expected 0.0"),
        ("rows", {"rows": {"output": [1.0]}}, "rows {'output': [1.0]}"),
        ("rows", {"rows": None}, "rows None"),
        ("memory", {"memory": {"resident": "much"}, "kernel": ""}, "memory {'resident': 'much'}"),
        ("memory", {"memory": {}, "kernel": ""}, "memory {}"),
        ("memory", {"memory": {**NOTHING_TAKEN, "more": 1.0}, "kernel": ""}, None),
        ("memory", {"memory": {**NOTHING_TAKEN, "output": math.nan}, "kernel": ""}, None),
        ("memory", {"memory": {**NOTHING_TAKEN, "output": -1e9}, "kernel": ""}, None),
        ("memory", {"memory": {**NOTHING_TAKEN, "output": 10**400}, "kernel": ""}, None),
        ("memory", {"memory": {**NOTHING_TAKEN, "output": True}, "kernel": ""}, None),
        ("memory", {"memory": NOTHING_TAKEN, "kernel": 3}, "kernel 3"),
        ("load", {"loaded": 0}, "loaded 0"),
        ("proof", {"found": [torch.ones(1)]}, None),
        ("proof", {"found": {"output": 1.0}}, "found {'output': 1.0}"),
        ("energy", {"telemetry": 3.0}, "telemetry 3.0"),
        ("ceilings", {"ceilings": [1.0]}, "ceilings [1.0]"),
        ("sample", {"status": "measured", "detail": ""}, "status 'measured'"),
        ("sample", {"status": "excellent", "detail": ""}, "status 'excellent'"),
        ("sample", {"status": "raised", "detail": 7}, "status 'raised'"),
        ("sample", {"status": "raised"}, "status 'raised'"),
        ("sample", {"status": ["raised"], "detail": ""}, "status ['raised']"),
    ],
)
def test_an_answer_that_is_none_is_refused(verb: str, answer: dict[str, Any], detail: str | None) -> None:
    found = checked(verb, answer)

    assert found["status"] == "refused"
    assert found["detail"].startswith(f"answered garbage: {detail or verb_of(verb)}")


def verb_of(verb: str) -> str:
    """How a complaint begins whose rest is too long."""
    return {"memory": "memory {", "proof": "found [tensor("}[verb]


@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        ("prepare", HONEST),
        ("sample", {"seconds": 1e-9, "warmed": 0.0, "made": 0.0}),
        ("rows", {"rows": {"output": torch.ones(1)}}),
        ("memory", {"memory": {**NOTHING_TAKEN, "retained": 1.5, "driver": None}, "kernel": ""}),
        ("proof", {"found": {"output": torch.ones(1)}}),
        ("ceilings", {"ceilings": {"flops": 1e12}}),
        ("release", {}),
    ],
)
def test_an_answer_is_taken_as_it_is(verb: str, answer: dict[str, Any]) -> None:
    assert checked(verb, answer) is answer


def test_a_failure_says_its_status_and_detail_and_nothing_else() -> None:
    said = {"status": "raised", "detail": "ValueError", "seconds": (1.0,), "known": "a finding"}

    assert checked("sample", said) == {"status": "raised", "detail": "ValueError"}


NAMELESS = Declaration("attention", "x", "x")


@pytest.mark.parametrize(
    ("given", "status", "detail"),
    [
        (Missing(NAMELESS, "No module named 'x'"), "missing", "No module named 'x'"),
        (Broken(NAMELESS, "ImportError: x"), "raised", "ImportError: x"),
        (Hung(60.0), "hung", "hung: no answer within 60 s"),
        (Died("SIGSEGV"), "died", "died: SIGSEGV"),
        (Died("SIGKILL"), "died", "died: SIGKILL; the system may have been out of memory"),
        (Died("SIGABRT", "terminate called after throwing 'std::bad_alloc'"), "out_of_memory", None),
        (None, "died", "answered garbage: None"),
    ],
)
def test_a_process_that_does_not_answer_has_a_status(given: object, status: str, detail: str | None) -> None:
    answer = lost(given)

    assert answer["status"] == status
    assert detail is None or answer["detail"] == detail


# Memory, in processes that have called nothing yet

HOARDER = """
import os, signal, sys, threading, time
import torch
from suite import implementation

HELD = {}

@implementation
def attention(query, key, value, *, attn_mask=None):
    if query.shape[-2] == 197:
        os.kill(os.getpid(), signal.SIGSEGV)
    if query.shape[-2] == 37:
        os._exit(3)
    if query.shape[-2] > 1000 and not HELD:
        HELD["room"] = torch.ones(2**22, dtype=torch.uint8)  # 4 MiB, kept for the next call
    return value * 1.0
"""
THREADED = (
    HOARDER
    + """
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
torch.ones(64, 64) @ torch.ones(64, 64)
"""
)
IGNORING = HOARDER + "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
LINUX = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not tell its memory")
MIB = 2**20


def weighing(member: Member, workload: str, expected: float = 0.01) -> dict[str, Any]:
    task = {"contract": "attention", "workload": workload, "dtype": "float32", "direction": "forward", "cache": "hot"}
    return member.weigh({**task, "expected": expected})


@pytest.fixture(params=[HOARDER, THREADED, IGNORING], ids=["alone", "with threads", "ignoring its children"])
def hoarder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Member]:
    file = tmp_path / "hoarder.py"
    file.write_text(request.param)
    (declaration,) = registry.find([str(file)])
    member = Member(declaration, "cpu", 1, 2**33, 60.0)
    yield member
    member.close()


@LINUX
def test_what_one_call_leaves_behind_hides_nothing_of_the_next(hoarder: Member) -> None:
    for workload in ("ladder/1k", "ladder/2k", "ladder/1k"):
        memory = weighing(hoarder, workload)["memory"]
        assert 4 * MIB <= memory["retained"] < 7 * MIB, workload


@LINUX
@pytest.mark.parametrize(("workload", "how"), [("vit/b16", "SIGSEGV"), ("documents/fashion-vit", "exit status 3")])
def test_a_death_while_memory_is_measured_is_an_answer(hoarder: Member, workload: str, how: str) -> None:
    answer = weighing(hoarder, workload)

    assert answer["status"] == "died"
    assert how in answer["detail"]
    assert "memory" in weighing(hoarder, "ladder/1k"), "the next question gets a process of its own"


LOADER = """
import os, threading, time
from pathlib import Path
from suite import implementation

LOADED = []

@implementation
def attention(query, key, value):
    if not LOADED:
        LOADED.append(query.shape)
        with Path(__file__).with_suffix(".txt").open("a") as said:
            print(os.getpid(), file=said)
        if STARTS_THREADS:
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return value * 1.0
"""


@LINUX
@pytest.mark.parametrize("threads", [False, True])
def test_what_every_call_needs_is_loaded_once_unless_that_starts_threads(tmp_path: Path, threads: bool) -> None:
    file = tmp_path / "loader.py"
    file.write_text(f"STARTS_THREADS = {threads}\n{LOADER}")
    (declaration,) = registry.find([str(file)])
    member = Member(declaration, "cpu", 1, 2**33, 60.0)
    try:
        for workload in ("ladder/1k", "decode/1k", "documents/encoder-block"):
            assert "memory" in weighing(member, workload)
        assert member._weighed is not None
        process = str(member._weighed.pid)
    finally:
        member.close()

    loaded = file.with_suffix(".txt").read_text().split()

    assert (process in loaded) is not threads
    assert len(set(loaded)) == len(loaded) == (4 if threads else 1), "the process that tried, and all copies or none"


TAKER = """
import time
from pathlib import Path
import torch
from suite import implementation

@implementation
def attention(query, key, value):
    long = query.shape[-2] > 1000
    if long:
        with Path(__file__).with_suffix(".txt").open("a") as said:
            print("called", file=said)
        time.sleep(0.15)  # so long that the profiler looks once
    torch.ones(MIB if long else 1, 2**18)
    return value * 1.0
"""


@LINUX
@pytest.mark.parametrize(
    ("taken", "calls"), [(1024, [1, 1, 1]), (1, [3, 3, 2])], ids=["much", "little, found out twice"]
)
def test_a_long_call_that_takes_much_is_made_once_for_both_its_memory_and_its_kernels(
    tmp_path: Path, taken: int, calls: list[int]
) -> None:
    file = tmp_path / "taker.py"
    file.write_text(TAKER.replace("MIB", str(taken)))
    (declaration,) = registry.find([str(file)])
    member = Member(declaration, "cpu", 1, 2**33, 60.0)
    made = []
    try:
        for _ in calls:
            answer = weighing(member, "ladder/1k", 1.0)
            assert abs(answer["memory"]["resident"] - taken * MIB) < 2 * MIB
            assert answer["kernel"].startswith("aten::fill_") or taken == 1, answer
            made.append(len(file.with_suffix(".txt").read_text().split()))
            file.with_suffix(".txt").unlink()
    finally:
        member.close()

    assert made == calls


@LINUX
@pytest.mark.parametrize(("name", "threads"), [("einsum_numpy", 1), ("einsum_numpy", 2), ("onnx_operator", 1)])
def test_what_the_suite_s_own_libraries_start_is_no_reason_for_a_fresh_process(name: str, threads: int) -> None:
    (declaration,) = registry.find([f"attention/{name}"])
    if registry.absent(declaration):
        pytest.skip(f"{name}'s library is not installed")
    member = Member(declaration, "cpu", threads, 2**33, 60.0)
    try:
        assert weighing(member, "ladder/1k")["memory"]["output"] == 2**18
        assert member._weighed is not None, "it is there for the next question"
    finally:
        member.close()


# Where things lie

SURVEYOR = """
from pathlib import Path
import torch
from suite import implementation

@implementation
def attention(query, key, value):
    scores = query @ key.mT
    with Path(__file__).with_suffix(".txt").open("a") as said:
        print(query.data_ptr() % 4096, scores.data_ptr() % 4096, file=said)
    return scores.softmax(-1) @ value
"""


@LINUX
def test_what_is_timed_and_what_is_weighed_are_forked_from_what_was_expected() -> None:
    def begun() -> set[int]:
        return {child.pid for child in psutil.Process().children()}

    (declaration,) = registry.find(["attention/matmul"])
    bench = Benchmark(contract("attention"), [declaration], Request(("documents/one-sentence",), "quick", threads=(2,)))
    bench.expect()
    expected = begun()
    with Worker(declaration) as asked:
        assert isinstance(asked.ready(), Ready)
        assert psutil.Process(asked.pid).ppid() in expected
    member = Member(declaration, "cpu", 2, 2**33, 60.0)
    member.start()
    try:
        assert member.ready() == {}
        weighing(member, "documents/one-sentence")
        parents = [psutil.Process(each and each.pid).ppid() for each in (member._timed, member._weighed)]
        assert set(parents) < expected
        assert parents[0] != parents[1], "they differ in how the C library allocates"
        assert begun() == expected
    finally:
        member.close()


def test_nothing_is_imported_any_more_when_the_first_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    (declaration,) = registry.find(["attention/matmul"])
    bench = Benchmark(contract("attention"), [declaration], Request(("documents/one-sentence",), "quick"))
    monkeypatch.setenv("ATTNSUITE_TEST", "imports")
    bench.expect()
    with ExitStack() as stack:
        bench._members(1, stack)
        begun = list(forkserver._servers.values())[-3:]
        assert [server._control.gettimeout() for server in begun] == [forkserver.ANSWER_LIMIT] * 3, "all have answered"


def test_from_round_to_round_inputs_and_what_is_allocated_lie_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "surveyor.py"
    file.write_text(SURVEYOR)
    (declaration,) = registry.find([f"{file}:attention"])
    task = {"contract": "attention", "workload": "vit/b16", "dtype": "float32", "direction": "forward", "cache": "hot"}
    member = Member(declaration, "cpu", 1, 2**33, 60.0)
    member.start()
    try:
        prepared = {**task, **member.request("prepare", task)}
        file.with_suffix(".txt").unlink()
        for number in range(40):
            assert "status" not in member.request("sample", {**prepared, "calls": 1, "expected": 1.0, "number": number})
    finally:
        member.close()

    lines = [line.split() for line in file.with_suffix(".txt").read_text().splitlines()]
    assert len(lines) == 40
    for places in zip(*lines, strict=True):
        assert len(set(places)) > 10, "within a page, that is: 64 places are possible"
