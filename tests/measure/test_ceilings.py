"""Ceilings are what the machine reaches."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from clocks import Time

from suite.measure import ceilings


def test_ceilings_are_the_best_of_all_samples(now: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SIDES", {"cpu": 8})
    monkeypatch.setattr(ceilings, "COPIED", {"cpu": 64})
    seen = iter([(2.0, 0.5, 3.0), (4.0, 8.0)])
    monkeypatch.setattr(ceilings, "measure", lambda *_, **__: SimpleNamespace(seconds=next(seen)))

    assert ceilings.ceilings("float32", "cpu") == {"flops": 2 * 8**3 / 0.5, "bytes": 2 * 64 / 4}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_ceilings_are_measured(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SIDES", {"cpu": 128})
    monkeypatch.setattr(ceilings, "COPIED", {"cpu": 2**24})
    monkeypatch.setattr(ceilings, "BUDGET", 0.01)

    found = ceilings.ceilings(dtype, "cpu")

    assert found.keys() == {"flops", "bytes"}
    assert all(1e7 < value < 1e15 for value in found.values())
