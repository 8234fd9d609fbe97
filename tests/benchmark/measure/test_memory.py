"""Memory meters, on known allocations."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from workers import LINUX, run_program

from attnsuite.benchmark.measure import memory
from attnsuite.benchmark.processes import MEASURED

MiB = 2**20
SLACK = MiB
"""Linux counts resident pages for each thread and adds them up after some dozens (64 pages of 4 KiB, that is 256 KiB a
thread); a call also takes some pages of its own, of the stack and of Python's heap."""


@pytest.fixture(scope="session")
def weighed() -> dict[str, Any]:
    """What a process says whose memory is measured, started as such processes are."""
    with run_program("weighs_known_calls.py", environment=MEASURED) as process:
        found: dict[str, Any] = json.loads(process.communicate()[0])
    return found


@LINUX
@pytest.mark.parametrize("size", [4, 32, 128])
def test_a_known_allocation_is_what_the_meter_says(weighed: dict[str, Any], size: int) -> None:
    assert all(abs(peak - size * MiB) < SLACK for peak in weighed["scratch"][str(size)]), weighed


@LINUX
def test_the_meter_says_what_is_held_at_one_time(weighed: dict[str, Any]) -> None:
    assert abs(weighed["in turn"] - 32 * MiB) < SLACK, "four times 32 MiB, one after the other"
    assert abs(weighed["many small"] - 320 * 100_000) < 320 * 8192 + SLACK, "each is rounded up to whole pages"
    assert weighed["untouched"] < SLACK, "what is never written to is not there"


@LINUX
def test_the_meter_is_held_against_known_allocations(weighed: dict[str, Any]) -> None:
    constant, per_byte = weighed["calibrated"]

    assert 0 <= constant < SLACK
    assert 0.9 < per_byte < 1.1, "256 KiB are 6 % of the 4 MiB among them"


@LINUX
def test_what_a_function_keeps_is_told_from_what_a_call_takes(weighed: dict[str, Any]) -> None:
    found = weighed["keeps"]

    assert abs(found["retained"] - 32 * MiB) < SLACK
    assert abs(found["resident"] - 8 * MiB) < SLACK
    assert weighed["after"]["retained"] < SLACK
    assert abs(weighed["after"]["resident"] - 32 * MiB) < SLACK
    assert weighed["warm"] == ["warm"]
    assert (found["allocator"], found["driver"]) == (None, None), "those are a GPU's"


@LINUX
def test_pages_of_files_are_not_retained(weighed: dict[str, Any]) -> None:
    """As a library's code is mapped where it first runs: how much at once is the system's choice."""
    found = weighed["maps a file"]

    assert found["retained"] < SLACK
    assert abs(found["resident"] - 8 * MiB) < SLACK


@LINUX
@pytest.mark.parametrize(
    ("leaves", "calls", "taken", "kept"),
    [("nothing", 1, 64, 0), ("a block", 2, 128, 64), ("what may be nothing", 1, 8, 0.375)],
)
def test_a_call_is_made_once_more_only_where_it_leaves_something_behind(
    weighed: dict[str, Any], leaves: str, calls: int, taken: int, kept: float
) -> None:
    made, resident, retained = weighed[f"leaves {leaves}"]

    assert made == calls
    assert abs(resident - taken * MiB) < SLACK
    assert abs(retained - kept * MiB) < SLACK


def test_without_the_system_s_files_there_are_no_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "no" / "clear_refs")
    memory.calibrated.cache_clear()
    calls: list[str] = []

    found = memory.memory_of_call(lambda: calls.append("call"), "cpu", lambda: calls.append("warm"))

    assert set(found) == {"resident", "retained", "constant", "calibration", "allocator", "driver"}
    assert set(found.values()) == {None}
    assert calls == ["warm", "call"], "it is called all the same"


def test_a_gpu_s_memory_is_its_allocator_s_peak_and_what_the_driver_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    used = iter([100, 170])
    for name, answer in (
        ("empty_cache", None), ("synchronize", None), ("reset_peak_memory_stats", None),
        ("memory_allocated", 30), ("max_memory_allocated", 75),
    ):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda *_, n=name, a=answer: said.append(n) or a)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(uuid="GPU-1"))
    monkeypatch.setattr(memory.nvml, "used_memory", lambda device: {"GPU-1": next(used)}[device])

    found = memory.memory_of_call(lambda: said.append("call"), "cuda", lambda: said.append("warm"))

    assert (found["allocator"], found["driver"], found["resident"]) == (45.0, 70.0, None)
    last = len(said) - 1 - said[::-1].index("call")
    assert said.count("call") == 2
    assert said.index("reset_peak_memory_stats") < said.index("memory_allocated") < last
    assert last < said.index("max_memory_allocated")
