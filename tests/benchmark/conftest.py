"""The clock that tests of races turn."""

from __future__ import annotations

import pytest
from attnsuite.benchmark import entry
from clocks import Time


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Time:
    """The clock by which the suite times what participants answer."""
    turned = Time()
    monkeypatch.setattr(entry, "perf_counter", turned)
    return turned
