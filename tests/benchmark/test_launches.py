"""On a GPU a call takes its process longer than the device: launching is no lie, and hides none that is longer."""

from __future__ import annotations

import pytest
from clocks import Time
from racers import Fake, race

FLUSH = 40e-6
"""Seconds that a flush of the cache takes: launching is hidden behind it."""
COPY = 12e-6
"""Seconds that the suite takes to copy what a call has returned."""


def on_gpu(name: str, now: Time, device: float, launching: float, claims: float | None = None, **more: object) -> Fake:
    """An entry whose calls keep the device busy for so many seconds and its process for as long as launching takes.

    It claims what events tell: the device's time and what of launching is longer than the flush.
    """
    told = max(device, launching - FLUSH) if claims is None else claims
    wall = max(device, launching)
    return Fake(name, now, lambda _: wall, told / wall, head_start=FLUSH, asking=COPY, witnessed=False, **more)


@pytest.mark.parametrize("device", [5e-6, 2e-5, 4e-4])
@pytest.mark.parametrize("launching", [3e-6, 35e-6, 70e-6])
def test_honest_kernels_are_proved_however_short_they_are(now: Time, device: float, launching: float) -> None:
    baseline = on_gpu("base", now, 3e-5, 60e-6)

    found = race(baseline, on_gpu("fused", now, device, launching), calls=10, cache="cold")

    assert [(entry.failed, entry.proved) for entry in found] == [(None, True), (None, True)]


def test_work_that_is_longer_than_launching_can_hide_is_refused(now: Time) -> None:
    """It claims 5 µs, and the device works for 200."""
    found = race(on_gpu("base", now, 3e-5, 60e-6), on_gpu("liar", now, 2e-4, 35e-6, 5e-6), calls=10, cache="cold")[1]

    assert found.failed is not None
    assert found.failed.status == "refused"
    assert "it claims 5e-06 s for a call" in found.failed.detail


@pytest.mark.parametrize("shipped", [True, False])
def test_nobody_hides_work_by_a_head_start_of_its_own(now: Time, shipped: bool) -> None:
    """A process may say that flushing takes it a second. What others say counts, and never more than 1 ms."""
    liar = on_gpu("liar", now, 5e-3, 35e-6, 5e-6, shipped=False)
    liar.head_start = 1.0

    _, among_others = race(on_gpu("base", now, 3e-5, 60e-6, shipped=shipped), liar, calls=10, cache="cold")
    (by_itself,) = race(liar, calls=10, cache="cold")

    assert among_others.failed
    assert by_itself.failed


def test_where_nothing_is_flushed_launching_is_part_of_the_claim(now: Time) -> None:
    liar = on_gpu("liar", now, 5e-6, 70e-6, 5e-6)
    liar.head_start = 0.0
    base = on_gpu("base", now, 3e-5, 6e-6)
    base.head_start = 0.0

    assert race(base, liar, calls=10, cache="cold")[1].failed
