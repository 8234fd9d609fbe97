"""The clock that tests of races turn."""

from __future__ import annotations

import pytest
from clocks import Time

from attnsuite.benchmark import entry


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Time:
    """The clock by which the suite times what participants answer."""
    turned = Time()
    monkeypatch.setattr(entry, "perf_counter", turned)
    return turned
