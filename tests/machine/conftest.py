"""What the tests of NVIDIA devices have in common."""

import sys
from itertools import count

import pytest

from attnsuite.machine import nvidia, unaided


@pytest.fixture(autouse=True)
def _nobody_else_tells(monkeypatch):
    """Devices that this machine may have are not among those of the tests."""
    monkeypatch.setattr(unaided, "TOOL", ("no-such-tool",))
    monkeypatch.setattr(unaided, "DEVICES", ())
    unaided.names.cache_clear()
    yield
    unaided.names.cache_clear()


@pytest.fixture(autouse=True)
def _no_choice_of_devices(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


@pytest.fixture
def install(monkeypatch):
    """Puts a library in pynvml's place, and a clock that goes a second from look to look in the meter's."""

    def put(library):
        monkeypatch.setitem(sys.modules, "pynvml", library)
        ticks = count(100.0)
        monkeypatch.setattr(nvidia, "perf_counter", lambda: next(ticks))
        monkeypatch.setattr(nvidia, "INTERVAL", 0.001)
        return library

    return put
