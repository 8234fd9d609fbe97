"""Implementations that misbehave while they are timed, in real processes beside an honest one."""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
from racers import CEILINGS
from workers import LIMIT as LONG_LIMIT
from workers import SUBMISSIONS
from workers import descriptors as open_descriptors

from attnsuite import registry
from attnsuite.benchmark import request, table
from attnsuite.benchmark.busy import Load, LoadMeter
from attnsuite.benchmark.measure.messages import Job, NoResult, PreparedTask
from attnsuite.benchmark.participant import Participant
from attnsuite.benchmark.request import Request
from attnsuite.benchmark.series import Benchmark
from attnsuite.contracts import contract
from attnsuite.model import EVERY_CASE, Measurement, Outcome
from attnsuite.model.limits import NOT_BOUNDED
from attnsuite.worker.forkserver import forget_servers

pytestmark = pytest.mark.slow
CONTRACT = contract("attention")
TINY = "documents/one-sentence"
TABLES = (TINY, "documents/encoder-block", "documents/translation", "ladder/1k", "decode/1k", "vit/b16")
LIMIT = 2.0
"""Seconds for an answer of whoever hangs; all other answers may take as long as a busy machine makes them."""
FILES = ("zoo", "later", "exits", "import_error")


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
    return open_descriptors()


@pytest.fixture(scope="session")  # a process may come back to this file after others
def zoo(passed: Callable[..., list[Outcome]]) -> Zoo:
    """One benchmark of all of them beside each other. The contract is not asked: they keep it, which takes minutes."""
    declarations = registry.find([str(SUBMISSIONS / f"{name}.py") for name in FILES])
    names = [declaration.full_name for declaration in declarations]
    kept = {name: passed(name) for name in names}
    before, started = descriptors(), list[int | None]()
    start, prepare = Participant.start, Participant.prepare

    def watched(self: Participant) -> None:
        start(self)
        started.append(self._timing[0].worker.pid)  # type: ignore[union-attr]

    def hurried(self: Participant, job: Job) -> PreparedTask | NoResult:
        prepared = prepare(self, job)
        hangs = self.name == "attention/zoo.fatal" and job.workload == "documents/encoder-block"
        self._timing[0].worker.time_limit = LIMIT if hangs else LONG_LIMIT  # type: ignore[union-attr]
        return prepared

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoadMeter, "load", lambda self: Load())  # whatever else runs here, as on an idle machine
        patch.setattr(request, "MEMORY_SHARE", 2**31 / psutil.virtual_memory().total)
        patch.setattr(Request, "slowest", 1.0)
        patch.setattr(Participant, "start", watched)
        patch.setattr(Participant, "prepare", hurried)
        of = Benchmark(CONTRACT, declarations, Request(TABLES, budget=0.01), kept, ceilings=CEILINGS)
        found = [row for _, rows in of.run() for row in rows]
    left = [pid for pid in started if pid and Path(f"/proc/{pid}").exists()]
    return Zoo(
        {(row.implementation, row.workload): row for row in found if row.workload != EVERY_CASE},
        {row.implementation.removeprefix("attention/"): row for row in found if row.workload == EVERY_CASE},
        left, before, descriptors(),
    )  # fmt: skip


def complaint(row: Measurement) -> str:
    """What a row says, but for what a busy machine makes every row say."""
    return "" if row.detail.startswith(NOT_BOUNDED) else row.detail


NAMES = ("good", "moody", "sly", "fatal", "clock", "forger")
WRONG = "its output was wrong while it was timed: "


@pytest.mark.parametrize("workload", TABLES)
def test_whatever_the_others_do_an_honest_one_is_measured(zoo: Zoo, workload: str) -> None:
    row = zoo.row("zoo.good", workload)

    assert (row.status, complaint(row)) == ("measured", "")
    assert len(row.seconds) >= 12
    assert all(0 < seconds < 60 for seconds in row.seconds)
    assert row.calls >= 1
    assert row.stopped in ("narrow", "budget")
    assert row.error_ratio is not None
    assert row.error_ratio <= 2
    assert row.first_call is not None
    assert row.ceilings == {"flops": 1e18, "bytes": 1e9}
    assert row.kernel.startswith("aten::")
    assert row.memory.keys() == {
        "output", "resident", "retained", "constant", "calibration", "allocator", "driver",
    }  # fmt: skip
    assert not row.fails


def test_every_table_has_a_row_of_everybody_who_could_be_started(zoo: Zoo) -> None:
    names = {f"attention/zoo.{name}" for name in NAMES} | {"attention/later"}

    assert set(zoo.rows) == {(name, workload) for name in names for workload in TABLES}
    assert all(row.seconds == () and row.detail for row in zoo.rows.values() if row.status != "measured")


@pytest.mark.parametrize(
    ("name", "workload", "status", "detail"),
    [
        ("moody", TINY, "error", "ValueError: in a round"),
        ("moody", "documents/encoder-block", "refused", WRONG),
        ("moody", "documents/translation", "refused", WRONG),
        ("moody", "ladder/1k", "refused", "TypeError: output is a list, should be a Tensor"),
        ("moody", "decode/1k", "refused", "it changed the number of threads from 1 to 2"),
        ("moody", "vit/b16", "refused", WRONG),
        ("sly", TINY, "refused", WRONG),
        ("sly", "documents/encoder-block", "refused", "it changed the default dtype to torch.float64"),
        ("sly", "documents/translation", "unsupported", "not in ten steps"),
        ("sly", "ladder/1k", "refused", (WRONG, "it claims ")),
        ("sly", "decode/1k", "unsupported", "too slow to time here: a call takes 1.2"),
        ("sly", "vit/b16", "refused", WRONG),
        ("fatal", TINY, "crashed", "crashed: SIGABRT; the last it printed: "),
        (
            "fatal",
            "documents/encoder-block",
            "timeout",
            f"timeout: no result within {LIMIT:g} s; --time-limit {2 * LIMIT:g} allows more",
        ),
        ("fatal", "documents/translation", "crashed", "crashed: exit status 1; the last it printed: "),
        ("fatal", "ladder/1k", "out_of_memory", "RuntimeError: "),
        ("fatal", "decode/1k", "out_of_memory", "MemoryError"),
        ("fatal", "vit/b16", "measured", ""),
        ("clock", TINY, "refused", "it claims "),
        ("clock", "documents/encoder-block", "refused", "it claims "),
        ("clock", "ladder/1k", "refused", "no time passes while it is called"),
        ("clock", "vit/b16", "unsupported", "no lies about that"),
        ("forger", TINY, "refused", "invalid reply: Expected `float` >= 1e-09 - at `$.seconds`"),
        ("forger", "documents/encoder-block", "refused", "invalid reply: Expected `float` >= 1e-09 - at `$.seconds`"),
        ("forger", "documents/translation", "refused", "invalid reply: status 'measured'"),
        ("forger", "ladder/1k", "refused", "invalid reply: Expected `float`, got `"),
        ("forger", "vit/b16", "crashed", ""),
    ],
)
def test_whoever_misbehaves_has_a_row_that_says_how(
    zoo: Zoo, name: str, workload: str, status: str, detail: str | tuple[str, ...]
) -> None:
    row = zoo.row(f"zoo.{name}", workload)

    assert (row.status, row.detail.startswith(detail)) == (status, True), row.detail
    assert row.fails == (status in ("error", "crashed", "timeout", "refused"))


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

    assert (row.status, complaint(row)) == ("measured", "")
    assert min(row.seconds) >= 0.002
    assert row.first_call is not None
    assert row.first_call >= 0.002


def test_what_cannot_be_started_is_one_row(zoo: Zoo) -> None:
    assert {name: (row.status, row.detail) for name, row in zoo.about_all.items()} == {
        "exits": ("crashed", "crashed: exit status 3"),
        "import_error": ("error", "ModuleNotFoundError: No module named 'nosuch' (import_error.py, line 3)"),
    }
    assert {row.table for row in zoo.about_all.values()} == {
        (EVERY_CASE, EVERY_CASE, "cpu", "0", EVERY_CASE, EVERY_CASE)
    }


def test_nothing_is_left_of_a_benchmark(zoo: Zoo) -> None:
    assert zoo.left == []
    assert zoo.after == zoo.before


def test_the_others_are_timed_anew_without_one_that_takes_more_cores_than_it_was_given(
    passed: Callable[..., list[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which one does is said here, for a machine whose cores are busy has none to take."""
    declarations = registry.find([str(SUBMISSIONS / "honest.py"), f"{SUBMISSIONS / 'zoo.py'}:good"])
    raced: list[list[str]] = []
    used: dict[str, float] = {}
    race = table.race

    def seen(entries: Any, *more: Any) -> int:
        raced.append([entry.name for entry in entries])
        return race(entries, *more)

    def greedy(self: Participant) -> float:
        used[self.name] = used.get(self.name, 0.0) + (1000.0 if self.name == "attention/honest" else 0.0)
        return used[self.name]

    monkeypatch.setattr(table, "race", seen)
    monkeypatch.setattr(Participant, "used", greedy)
    kept = {declaration.full_name: passed(declaration.full_name) for declaration in declarations}
    of = Benchmark(CONTRACT, declarations, Request((TINY,), budget=0.005), kept, ceilings=CEILINGS)

    greedy_row, good = (row for _, rows in of.run() for row in rows)

    assert raced == [["attention/honest", "attention/zoo.good"], ["attention/zoo.good"]]
    assert (greedy_row.status, good.status) == ("refused", "measured")
    assert greedy_row.detail.startswith("it was given 1 cores and used ")
