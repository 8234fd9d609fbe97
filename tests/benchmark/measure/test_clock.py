"""Clocks: what they time, what they leave out, and that nothing escapes them."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
import torch
from clocks import Device, Time

from attnsuite.benchmark.measure import EscapedWork, clock

# A CPU's


def test_time_is_that_of_the_calls_by_their_number(now: Time) -> None:
    seconds, result = clock.CpuClock("hot").time(4, None, now.takes(1.0, 2.0, 3.0, 6.0))

    assert (seconds, result) == (3.0, 3), "the mean of all, and what the last one returned"


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_what_comes_before_a_call_is_not_timed(now: Time, cache: str) -> None:
    before, taken = now.takes(100.0), []

    def call(made: object) -> None:
        taken.append(made)
        now.now += 2.0

    seconds, _ = clock.CpuClock(cache).time(3, before, call)

    assert seconds == 2.0
    assert taken == [0, 1, 2], "each call takes what was made for it"


def test_a_cold_call_begins_with_a_full_cache(now: Time) -> None:
    cold, hot = clock.CpuClock("cold"), clock.CpuClock("hot")

    cold.time(3, None, now.takes(1.0))

    assert hot._other is None
    assert cold._other.nbytes == clock.flush_bytes() // 8 * 8
    assert (cold._other == 3).all(), "every byte was written before each call"
    assert clock.flush_bytes() >= 2**22, "more than a core's own caches"


def test_the_flush_is_not_timed(now: Time) -> None:
    cold = clock.CpuClock("cold")
    cold._other = SimpleNamespace(add_=now.takes(50.0))

    assert cold.time(3, None, now.takes(1.0))[0] == 1.0


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_no_garbage_is_collected_while_time_runs(cache: str) -> None:
    seen = []

    clock.CpuClock(cache).time(2, None, lambda _: seen.append(gc.isenabled()))
    with pytest.raises(ZeroDivisionError):
        clock.CpuClock(cache).time(2, None, lambda _: 1 / 0)

    assert seen == [False, False]
    assert gc.isenabled()


# CUDA's, at its seam


def test_events_time_what_the_device_does_and_not_its_launch(device: Device) -> None:
    seconds, result = clock.CudaClock("cuda", "hot").time(4, None, device.works(2.0))

    assert (seconds, result, device.flushed) == (2.0, "output", 0)


def test_a_cold_call_on_a_device_begins_with_its_cache_flushed_untimed(device: Device) -> None:
    cold = clock.CudaClock("cuda", "cold")

    seconds, _ = cold.time(3, None, device.works(2.0))

    assert (seconds, device.flushed) == (2.0, 3 + clock.FLUSHES)
    assert cold.head_start == device.flushing, "so long launching may be hidden"
    assert clock.CudaClock("cuda", "hot").head_start == 0


def test_the_cache_is_flushed_for_as_long_as_launching_may_take(device: Device) -> None:
    device.flushing = clock.HEAD_START * 0.4

    cold = clock.CudaClock("cuda", "cold")
    cold.time(2, None, device.works(2.0))

    assert cold.head_start == pytest.approx(3 * device.flushing)
    assert device.flushed == clock.FLUSHES + 2 * 3


def test_launching_is_hidden_behind_the_flush_and_no_longer(device: Device) -> None:
    cold = clock.CudaClock("cuda", "cold")

    assert cold.time(3, None, device.works(2.0, launching=9.0))[0] == 2.0
    assert cold.time(1, None, device.works(2.0, launching=14.0))[0] == 6.0, "4 of 14 are not hidden"


def test_what_comes_before_a_call_on_a_device_is_not_timed(device: Device) -> None:
    seconds, _ = clock.CudaClock("cuda", "hot").time(3, device.works(50.0), device.works(2.0))

    assert seconds == 2.0


def test_work_on_another_stream_is_found_out(device: Device) -> None:
    with pytest.raises(EscapedWork, match=r"the device worked for \d+ µs after the call's end, on another stream"):
        clock.CudaClock("cuda", "hot").time(4, None, device.works(0.001, elsewhere=3.0))


def test_one_interruption_of_this_thread_is_no_accusation(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    interruptions = iter([0.0, 0.5])  # before the first launch, and between the end and the question whether it is busy
    honest = device.synchronize

    def synchronize(_: object = None) -> None:
        honest()
        device.now.now += next(interruptions, 0.0)

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)

    assert clock.CudaClock("cuda", "hot").time(2, None, device.works(1.0))[0] == 1.0
