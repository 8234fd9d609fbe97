"""What the tests of NVIDIA devices have in common."""

import sys
from itertools import count

import pytest

from suite.machine import nvidia


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
