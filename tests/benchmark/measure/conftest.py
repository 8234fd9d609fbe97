"""The clock that tests of the stopwatch turn, and the CUDA device that goes by it."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest
import torch
from clocks import Device, Time


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Time:
    """The clock of everything that is timed in this process."""
    turned = Time()
    for module in (
        "attnsuite.benchmark.measure",
        "attnsuite.benchmark.measure.clock",
        "attnsuite.benchmark.measure.task",
    ):
        monkeypatch.setattr(import_module(module), "perf_counter", turned)
    return turned


@pytest.fixture
def device(now: Time, monkeypatch: pytest.MonkeyPatch) -> Device:
    """The device that `torch.cuda` knows."""
    made = Device(now)
    for name in ("synchronize", "Event", "device", "get_device_properties"):
        monkeypatch.setattr(torch.cuda, name, getattr(made, name))
    buffer = SimpleNamespace(zero_=made.flush)
    monkeypatch.setattr(torch, "empty", lambda size, **_: buffer if size == 2048 else None)
    return made
