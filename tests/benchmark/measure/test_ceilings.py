"""Ceilings are what the machine reaches."""

from __future__ import annotations

import pytest
from clocks import Time

from attnsuite.benchmark.measure import ceilings


def test_ceilings_are_the_best_of_all_samples(now: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([(2.0, 0.5, 3.0), (4.0, 8.0)])
    monkeypatch.setattr(ceilings, "measure", lambda *_, **__: next(seen))

    assert ceilings.ceilings("float32", "cpu", (8, 64)) == {"flops": 2 * 8**3 / 0.5, "bytes": 2 * 64 / 4}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_ceilings_are_measured(dtype: str) -> None:
    found = ceilings.ceilings(dtype, "cpu", (128, 2**24), budget=0.01)

    assert found.keys() == {"flops", "bytes"}
    assert all(1e7 < value < 1e15 for value in found.values())
