"""The seams of the tests of NVIDIA devices: NVML and the clock."""

import sys
from itertools import count

import pytest

from attnsuite.machine import nvml, telemetry


@pytest.fixture(autouse=True)
def _no_devices_of_this_machine(monkeypatch):
    monkeypatch.setattr(nvml, "TOOL", ("no-such-tool",))
    nvml.names_without_nvml.cache_clear()
    yield
    nvml.names_without_nvml.cache_clear()


@pytest.fixture
def install(monkeypatch):
    """Puts a library in pynvml's place, and a clock that advances by a second per reading in the meter's."""

    def put(library):
        monkeypatch.setitem(sys.modules, "pynvml", library)
        ticks = count(100.0)
        monkeypatch.setattr(telemetry, "perf_counter", lambda: next(ticks))
        monkeypatch.setattr(telemetry, "INTERVAL", 0.001)
        return library

    return put
