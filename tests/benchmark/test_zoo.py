"""Implementations that misbehave while they are timed, in real processes beside an honest one."""

from __future__ import annotations

import gc
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from suite import benchmark, registry
from suite.benchmark import Benchmark, Request, rounds
from suite.benchmark.member import Member
from suite.contracts import contract
from suite.records import EVERY_CASE, Measurement, Outcome
from suite.worker import forget_servers

CONTRACT = contract("attention")
TINY = "documents/one-sentence"


def honest(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    return sdpa(query, key, value, is_causal=is_causal)


ZOO = '''
"""Implementations that misbehave in the rounds in which they are timed, each workload in another way."""
import math, os, sys, threading, time
import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa
from suite import implementation

QUERIES = {6: "documents/one-sentence", 100: "documents/encoder-block", 10: "documents/translation",
           1024: "ladder/1k", 1: "decode/1k", 197: "vit/b16"}

_numbers = []

def timed():
    """The round in which this call is timed, counted from 1 for each workload, or 0."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "sample" and frame.f_code.co_filename.endswith("serving.py"):
            asked = frame.f_locals["arguments"]
            if (asked["workload"], asked["number"]) not in _numbers:
                _numbers.append((asked["workload"], asked["number"]))
            return sum(workload == asked["workload"] for workload, _ in _numbers)
        frame = frame.f_back
    return 0

def where(query):
    return QUERIES[query.shape[-2]]

@implementation(variant="good")
def good(query, key, value):
    return sdpa(query, key, value)

@implementation(variant="moody")
def moody(query, key, value):
    number, output = timed(), sdpa(query, key, value)
    mood = where(query)
    if mood == "documents/one-sentence" and number == 3:
        raise ValueError("in a round")
    if mood == "documents/encoder-block" and number:
        return torch.randn_like(output)
    if mood == "documents/translation" and number:
        return output * math.nan
    if mood == "ladder/1k" and number:
        return output.tolist()
    if mood == "decode/1k" and number == 2:
        torch.set_num_threads(2)
    if mood == "vit/b16" and number:
        return output[..., :-1]
    return output

_first = {}

@implementation(variant="sly")
def sly(query, key, value):
    number, mood = timed(), where(query)
    if mood == "documents/one-sentence":  # what it answered first
        return _first.setdefault(query.data_ptr(), sdpa(query, key, value)).clone()
    if mood == "documents/encoder-block" and number == 2:
        torch.set_default_dtype(torch.float64)
    if mood == "documents/translation":
        raise NotImplementedError("not in ten steps")
    if mood == "ladder/1k" and number:  # computed when somebody looks
        output = torch.empty_like(query)
        late = lambda: (time.sleep(0.1), output.copy_(sdpa(query, key, value)))
        threading.Thread(target=late, daemon=True).start()
        return output
    if mood == "decode/1k":
        time.sleep(1.2)
    if mood == "vit/b16" and number:
        return sdpa(query, key, value).double()
    return sdpa(query, key, value)

@implementation(variant="fatal")
def fatal(query, key, value):
    number, mood = timed(), where(query)
    if mood == "documents/one-sentence" and number == 3:
        print("these are my last words")
        os.abort()
    if mood == "documents/encoder-block" and number == 2:
        time.sleep(600)
    if mood == "documents/translation" and number == 2:
        os.closerange(3, 64)
    if mood == "ladder/1k" and number == 2:
        kept = []
        while True:
            kept.append(torch.empty(2**24))
    if mood == "decode/1k" and number == 2:
        kept = []
        while True:
            kept.append(np.empty(2**23))
    return sdpa(query, key, value)

_real = time.perf_counter

@implementation(variant="clock")
def clock(query, key, value):
    slow = {"documents/one-sentence": 20, "documents/encoder-block": 20, "ladder/1k": math.inf}
    if where(query) not in slow:
        raise NotImplementedError("no lies about that")
    if "suite.measure.clock" in sys.modules:
        sys.modules["suite.measure.clock"].perf_counter = lambda: _real() / slow[where(query)]
    return sdpa(query, key, value)

@implementation(variant="forger")
def forger(query, key, value):
    serving = sys.modules.get("suite.measure.serving")
    forged = {
        "documents/one-sentence": {"seconds": -1.0, "warmed": 0.0, "made": 0.0},
        "documents/encoder-block": {"seconds": float("nan"), "warmed": 0.0, "made": 0.0},
        "documents/translation": {"status": "measured", "detail": "", "seconds": 1e-9},
        "ladder/1k": {"seconds": {"$tensor": 3}},
        "decode/1k": {},
        "vit/b16": 7,
    }
    if serving is not None:
        serving.sample = lambda *_: forged[where(query)]
    return sdpa(query, key, value)
'''

CHEAT = '''
"""Answers that are right, and times that are not."""
import sys, time
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

_last = {"mark": None, "times": 0}
_pending, _detach = [], torch.Tensor.detach

def _when_looked_at(tensor):
    if _pending and _pending[0][0] is tensor:
        output, inputs = _pending.pop()
        output.copy_(sdpa(*inputs))
    return _detach(tensor)

def attention(query, key, value):
    serving, mood = sys.modules.get("suite.measure.serving"), query.shape[-2]
    if serving is None:
        return sdpa(query, key, value)
    if mood in (6, 1024):  # looked up from the third call with the same numbers on
        mark = query.data_ptr(), query.flatten()[:8].tolist()
        if mark != _last["mark"]:
            _last.update(mark=mark, times=0)
        _last["times"] += 1
        if _last["times"] < 3:
            _last["output"] = sdpa(query, key, value)
            time.sleep(1e-3)
        return _last["output"]
    if mood == 100 and not hasattr(serving, "honest"):  # a hundredth is claimed of every round
        serving.honest = serving.sample
        def sample(function, device, arguments):
            answer = serving.honest(function, device, arguments)
            if arguments["number"] and arguments["workload"] == "documents/encoder-block":
                answer["seconds"] /= 100
            return answer
        serving.sample = sample
    if mood == 1:  # computed when somebody looks
        torch.Tensor.detach = _when_looked_at
        output = torch.empty_like(query)
        _pending[:] = [(output, (query, key, value))]
        return output
    if mood == 197 and "prove" in {sys._getframe(depth).f_code.co_name for depth in range(1, 8)}:
        return sdpa(query, key, value) * 1.5
    return sdpa(query, key, value)
'''

LATER = '''
"""Stops every clock that it finds while it is imported, shouts, and takes two milliseconds."""
import time
import torch
_sleep = time.sleep
time.perf_counter = time.monotonic = lambda: 0.0
time.sleep = lambda seconds: None

def attention(query, key, value):
    if query.shape[-2] != 100:
        raise NotImplementedError("only the encoder block")
    print("!" * 1000)
    _sleep(0.002)
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)
'''

WIDE = """
from suite import implementation

@implementation(lacks={"float32": "doubles only"})
def attention(query, key, value): ...
"""
EXITS = """
import os
os._exit(3)
def attention(query, key, value): ...
"""
IMPORT_ERROR = """
import nosuch
def attention(query, key, value): ...
"""

TABLES = (TINY, "documents/encoder-block", "documents/translation", "ladder/1k", "decode/1k", "vit/b16")
LIMIT = 2.0
"""Seconds for an answer of whoever hangs; all other answers may take as long as a busy machine makes them."""


@dataclass(frozen=True)
class Zoo:
    rows: Mapping[tuple[str, str], Measurement]
    about_all: Mapping[str, Measurement]
    left: Sequence[int]
    before: set[str]
    after: set[str]

    def row(self, name: str, workload: str) -> Measurement:
        return self.rows[f"attention/{name}", workload]


def descriptors() -> set[str]:
    """Those that stay open when what is kept for later benchmarks has been dropped."""
    forget_servers()
    gc.collect()
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208  names, not paths


@pytest.fixture(scope="session")  # a process may come back to this file after others
def zoo(tmp_path_factory: pytest.TempPathFactory, passed: Callable[..., list[Outcome]]) -> Zoo:
    """One benchmark of all of them beside each other. The contract is not asked: they keep it, which takes minutes."""
    folder = tmp_path_factory.mktemp("zoo")
    files = {"zoo": ZOO, "cheat": CHEAT, "later": LATER, "wide": WIDE, "exits": EXITS, "import_error": IMPORT_ERROR}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    declarations = registry.find([str(folder / f"{name}.py") for name in files])
    names = [declaration.full_name for declaration in declarations]
    kept = {name: passed(name) for name in names}
    asked = Request(TABLES, profile=None, budget=0.01)
    before, started = descriptors(), list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "memory_limit", lambda: 2**31)
        patch.setattr(Request, "slowest", 1.0)
        of = Benchmark(CONTRACT, declarations, asked, kept, _ceilings={("float32", 1): {"flops": 1e9, "bytes": 1e9}})
        start, request = Member.start, Member.request

        def hurried(self: Member, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            hangs = self.name == "attention/zoo.fatal" and arguments.get("workload") == "documents/encoder-block"
            return request(self, verb, arguments, LIMIT if hangs and verb == "sample" else None)

        patch.setattr(Member, "start", lambda self: (start(self), started.append(self._timed.pid)))
        patch.setattr(Member, "request", hurried)
        found = [row for _, rows in of.run() for row in rows]
    left = [pid for pid in started if pid and Path(f"/proc/{pid}").exists()]
    return Zoo(
        {(row.implementation, row.workload): row for row in found if row.workload != EVERY_CASE},
        {row.implementation.removeprefix("attention/"): row for row in found if row.workload == EVERY_CASE},
        left, before, descriptors(),
    )  # fmt: skip


NAMES = ("good", "moody", "sly", "fatal", "clock", "forger")
GARBAGE = "while it was timed its answer was wrong: "


@pytest.mark.parametrize("workload", TABLES)
def test_whatever_the_others_do_an_honest_one_is_measured(zoo: Zoo, workload: str) -> None:
    row = zoo.row("zoo.good", workload)

    assert (row.status, row.detail) == ("measured", "")
    assert len(row.seconds) >= 12
    assert all(0 < seconds < 60 for seconds in row.seconds)
    assert row.calls >= 1
    assert row.stopped in ("narrow", "budget")
    assert row.error_ratio is not None
    assert row.error_ratio <= 2
    assert row.first_call is not None
    assert row.ceilings == {"flops": 1e9, "bytes": 1e9}
    assert row.kernel.startswith("aten::")
    assert row.memory.keys() == {
        "output", "resident", "retained", "constant", "calibration", "allocator", "driver",
    }  # fmt: skip
    assert not row.fails


def test_every_table_has_a_row_of_everybody_who_could_be_started(zoo: Zoo) -> None:
    names = {f"attention/zoo.{name}" for name in NAMES} | {"attention/cheat", "attention/later", "attention/wide"}

    assert set(zoo.rows) == {(name, workload) for name in names for workload in TABLES}
    assert all(row.seconds == () and row.detail for row in zoo.rows.values() if row.status != "measured")


@pytest.mark.parametrize(
    ("name", "workload", "status", "detail"),
    [
        ("moody", TINY, "raised", "ValueError: in a round"),
        ("moody", "documents/encoder-block", "refused", GARBAGE),
        ("moody", "documents/translation", "refused", GARBAGE),
        ("moody", "ladder/1k", "refused", "TypeError: output is a list, should be a Tensor"),
        ("moody", "decode/1k", "refused", "it changed the number of threads from 1 to 2"),
        ("moody", "vit/b16", "refused", GARBAGE),
        ("sly", TINY, "refused", GARBAGE),
        ("sly", "documents/encoder-block", "refused", "it changed the default dtype to torch.float64"),
        ("sly", "documents/translation", "declined", "not in ten steps"),
        ("sly", "ladder/1k", "refused", (GARBAGE, "it claims ")),
        ("sly", "decode/1k", "declined", "too slow to time here: a call takes 1.2"),
        ("sly", "vit/b16", "refused", GARBAGE),
        ("fatal", TINY, "died", "died: SIGABRT; the last it printed: "),
        ("fatal", "documents/encoder-block", "hung", f"hung: no answer within {LIMIT:g} s"),
        ("fatal", "documents/translation", "died", "died: exit status 1; the last it printed: "),
        ("fatal", "ladder/1k", "out_of_memory", "RuntimeError: "),
        ("fatal", "decode/1k", "out_of_memory", "MemoryError"),
        ("fatal", "vit/b16", "measured", ""),
        ("clock", TINY, "refused", "it claims "),
        ("clock", "documents/encoder-block", "refused", "it claims "),
        ("clock", "ladder/1k", "refused", "no time passes while it is called"),
        ("clock", "vit/b16", "declined", "no lies about that"),
        ("forger", TINY, "refused", "answered garbage: seconds -1.0"),
        ("forger", "documents/encoder-block", "refused", "answered garbage: seconds nan"),
        ("forger", "documents/translation", "refused", "answered garbage: status 'measured'"),
        ("forger", "ladder/1k", "died", "died: exit status 1; the last it printed: TypeError: keys that "),
        ("forger", "vit/b16", "died", ""),
    ],
)
def test_whoever_misbehaves_has_a_row_that_says_how(
    zoo: Zoo, name: str, workload: str, status: str, detail: str | tuple[str, ...]
) -> None:
    row = zoo.row(f"zoo.{name}", workload)

    assert (row.status, row.detail.startswith(detail)) == (status, True), row.detail
    assert row.fails == (status in ("raised", "died", "hung", "refused"))


@pytest.mark.parametrize(
    ("workload", "detail"),
    [
        (TINY, "it claims "),
        ("documents/encoder-block", "it claims "),
        ("ladder/1k", "it claims "),
        ("decode/1k", ("it claims ", "its answer was wrong for numbers that it had not seen: ")),
        ("vit/b16", "its answer was wrong for numbers that it had not seen: "),
    ],
)
def test_times_of_right_answers_are_not_taken_on_trust(zoo: Zoo, workload: str, detail: str | tuple[str, ...]) -> None:
    row = zoo.row("cheat", workload)

    assert (row.status, row.detail.startswith(detail)) == ("refused", True), row.detail


def test_a_wrong_answer_is_shown_with_its_error(zoo: Zoo) -> None:
    wrong, nan, narrow = (zoo.row("zoo.moody", TABLES[at]) for at in (1, 2, 5))

    assert wrong.error_ratio is not None
    assert wrong.error_ratio > 100
    assert nan.error_ratio == math.inf
    assert re.search(r"rows of output has shape \((\d+), 63\), should have \(\1, 64\)$", narrow.detail)
    assert "is float64, should be float32" in zoo.row("zoo.sly", "vit/b16").detail


def test_a_clock_that_was_stopped_before_shows_true_times(zoo: Zoo) -> None:
    """The stopwatch took it before anything else was imported."""
    row = zoo.row("later", "documents/encoder-block")

    assert (row.status, row.detail) == ("measured", "")
    assert min(row.seconds) >= 0.002
    assert row.first_call is not None
    assert row.first_call >= 0.002


def test_what_cannot_be_started_is_one_row(zoo: Zoo) -> None:
    assert {name: (row.status, row.detail) for name, row in zoo.about_all.items()} == {
        "exits": ("died", "died: exit status 3"),
        "import_error": ("raised", "ModuleNotFoundError: No module named 'nosuch'"),
    }
    assert {row.table for row in zoo.about_all.values()} == {
        (EVERY_CASE, EVERY_CASE, "cpu", "0", EVERY_CASE, EVERY_CASE)
    }


def test_a_declared_gap_declines_with_its_reason(zoo: Zoo) -> None:
    details = {(zoo.row("wide", workload).status, zoo.row("wide", workload).detail) for workload in TABLES}

    assert details == {("declined", "lacks float32: doubles only")}


def test_nothing_is_left_of_a_benchmark(zoo: Zoo) -> None:
    assert zoo.left == []
    assert zoo.after == zoo.before


GREEDY = """
import subprocess, sys
from torch.nn.functional import scaled_dot_product_attention as sdpa

_helpers = []

def attention(query, key, value):
    if not _helpers:
        spins = "import os; os.sched_setaffinity(0, range(os.cpu_count()))\\nwhile True: pass"
        _helpers.extend(subprocess.Popen([sys.executable, "-c", spins], start_new_session=True) for _ in range(4))
    return sdpa(query, key, value)
"""


def test_the_others_are_timed_anew_without_one_that_takes_more_cores_than_it_was_given(
    tmp_path: Path, passed: Callable[..., list[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greedy.py").write_text(GREEDY)
    (tmp_path / "good.py").write_text(ZOO)
    declarations = registry.find([str(tmp_path / "greedy.py"), f"{tmp_path / 'good.py'}:good"])
    raced: list[list[str]] = []
    run = rounds.run
    monkeypatch.setattr(
        rounds, "run", lambda courses, *more: (raced.append([c.member.name for c in courses]), run(courses, *more))
    )
    kept = {declaration.full_name: passed(declaration.full_name) for declaration in declarations}
    ceilings = {("float32", 1): {"flops": 1e9, "bytes": 1e9}}
    of = Benchmark(CONTRACT, declarations, Request((TINY,), budget=0.5), kept, _ceilings=ceilings)

    greedy, good = (row for _, rows in of.run() for row in rows)

    assert raced == [["attention/greedy", "attention/good.good"], ["attention/good.good"]]
    assert (greedy.status, good.status) == ("refused", "measured")
    assert greedy.detail.startswith("it was given 1 cores and used ")
