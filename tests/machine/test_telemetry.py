"""What a window of samples says: joules and whence, throttle reasons, spreads; or why it says nothing."""

import pytest

from attnsuite.machine.telemetry import Window, summarised


def window(seconds=2.0, counter=(5000.0, 5700.0), watts=None, power_from="instant", **absent):
    """A window that begins at 10 s, its counter read at both ends and its power at even times in between."""
    end = 10.0 + seconds
    watts = [300.0] * 11 if watts is None else watts
    times = [10.0 + seconds * (place + 0.5) / len(watts) for place in range(len(watts))]
    seen = {"counter": list(zip((10.0, end), counter, strict=True)), "power": list(zip(times, watts, strict=True))}
    return Window(10.0, end, seen, absent, power_from)


def test_joules_are_the_counters_where_there_is_one():
    found = summarised(window())

    assert (found["joules"], found["joules_from"], found["seconds"]) == (700.0, "counter", 2.0)


@pytest.mark.parametrize(
    "unusable",
    [
        window(counter=(5000.0, 12.0)),
        window(counter=(5000.0, 5000.0)),
        Window(10.0, 12.0, window().seen, {"counter": "NVML: Not Supported"}, "instant"),
    ],
    ids=["reset", "constant", "absent"],
)
def test_joules_without_a_counter_are_of_the_power_samples(unusable):
    found = summarised(unusable)

    assert (found["joules"], found["joules_from"]) == (pytest.approx(600.0), "power samples")


def test_power_is_integrated_over_the_whole_window():
    ramp = window(watts=[100.0 * place for place in range(1, 21)], counter=(1.0, 1.0))

    # 19 intervals of 0.1 s from 100 to 2,000 W, and half an interval at either end
    assert summarised(ramp)["joules"] == pytest.approx(19 * 0.1 * 1050 + 0.05 * 100 + 0.05 * 2000)


def test_a_window_that_is_too_short_has_no_joules():
    found = summarised(window(0.99))

    assert (found["joules"], found["joules_absent"]) == (None, "0.99 s are too short: energy needs 1 s")
    assert "joules_from" not in found
    assert found["power"]["median"] == 300.0


def test_averages_of_a_second_need_a_longer_window():
    short, long = (summarised(window(seconds, (1.0, 1.0), power_from="usage")) for seconds in (4.9, 5.1))

    assert short["joules_absent"] == "the energy counter went from 1 to 1 J; 4.9 s are too short: energy needs 5 s"
    assert long["joules"] == pytest.approx(300 * 5.1)


def test_a_handful_of_power_samples_is_no_energy():
    found = summarised(window(counter=(1.0, 1.0), watts=[300.0] * 9))

    assert found["joules_absent"].endswith("9 power samples are too few: energy needs 10")


def test_median_lowest_and_highest_are_of_all_samples():
    found = summarised(Window(0.0, 1.0, {"sm_clock": [(0.1, 1980), (0.2, 1305), (0.3, 1755), (0.4, 1965)]}))

    assert found["sm_clock"] == {"median": 1860.0, "low": 1305, "high": 1980}
    assert found["samples"] == 4
    assert found["temperature_absent"] == "no sample was taken"


@pytest.mark.parametrize(
    ("masks", "words"),
    [
        ([0x0], []),
        ([0x1, 0x1], []),
        ([0x1, 0x4, 0x0], ["sw_power_cap"]),
        ([0x4, 0x40 | 0x8], ["sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"]),
        ([0x20 | 0x80], ["sw_thermal_slowdown", "hw_power_brake_slowdown"]),
        ([0x2 | 0x10 | 0x100], ["applications_clocks_setting", "sync_boost", "display_clock_setting"]),
        ([0x200 | 0x400], ["board_limit", "reliability"]),
        ([0x4 | 0x1000], ["sw_power_cap", "unknown_0x1000"]),
    ],
    ids=str,
)
def test_throttle_reasons_are_words(masks, words):
    seen = {"throttle": [(float(place), mask) for place, mask in enumerate(masks)]}

    found = summarised(Window(0.0, 9.0, seen))

    assert found["throttle"] == words
    assert "throttle_absent" not in found
