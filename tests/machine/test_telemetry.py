"""The telemetry of a GPU: every number in its unit, or the reason why it is absent."""

import ctypes
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from pretended_nvml import (
    FIELDS,
    FIRST,
    INSTANCE,
    LOST,
    NOT_SUPPORTED,
    SECOND,
    Library,
    NVMLError,
    all_absent,
    measured,
)

from attnsuite.machine import nvml, telemetry
from attnsuite.machine.telemetry import Meter, Window, summarised

ATTRIBUTE = AttributeError("module 'pynvml' has no such attribute")

# A window of a device


def test_a_window_has_everything_in_its_unit(install):
    library = install(Library())

    found = measured()

    assert {name: found[name] for name in FIELDS} == {
        "sm_clock": {"median": 1980, "low": 1980, "high": 1980},
        "memory_clock": {"median": 3201, "low": 3201, "high": 3201},
        "temperature": {"median": 41, "low": 41, "high": 41},
        "power": {"median": 698.412, "low": 698.412, "high": 698.412},
        "used_memory": {"median": 2147483648, "low": 2147483648, "high": 2147483648},
        "throttle": ["sw_power_cap"],
        "joules": 700.0,
    }
    assert found["power_from"] == "instant"
    assert found["samples"] >= 1
    assert found["seconds"] > 0
    assert not [name for name in found if name.endswith("_absent")]
    assert library.open == 0


def test_a_meter_measures_one_window(install):
    install(Library())
    meter = Meter(FIRST)

    assert all_absent(meter.stop(), "nothing was measured")
    first = meter.start().stop()

    assert first["samples"] >= 1
    assert meter.stop() is meter.telemetry is first
    with pytest.raises(RuntimeError, match="started before"):
        meter.start()


def test_a_body_that_raises_ends_the_window(install):
    library, meter = install(Library()), Meter(FIRST)

    with pytest.raises(ZeroDivisionError), meter:
        1 / 0  # noqa: B018  # raises

    assert meter.telemetry["samples"] >= 1
    assert library.open == 0
    assert f"NVML {FIRST}" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NOT_SUPPORTED, "NVML: Not Supported"),
        (OSError("the bus is gone"), "NVML: the bus is gone"),
        (ValueError(), "NVML: ValueError"),
    ],
    ids=["not supported", "message", "no message"],
)
@pytest.mark.parametrize(
    ("function", "field"),
    [("nvmlDeviceGetTemperature", "temperature"), ("nvmlDeviceGetCurrentClocksThrottleReasons", "throttle")],
)
def test_a_reading_that_fails_is_absent_and_leaves_the_others(function, field, error, reason, install):
    install(Library(**{function: error}))

    found = measured()

    assert (found[field], found[f"{field}_absent"]) == (None, reason)
    assert [name for name in FIELDS if found[name] is None] == [field]


def test_a_reading_that_fails_is_not_repeated(install):
    library = install(Library(nvmlDeviceGetTemperature=NOT_SUPPORTED))

    with Meter(FIRST):
        while library.asked.count(("nvmlDeviceGetMemoryInfo", FIRST)) < 3:
            threading.Event().wait(0.001)

    assert library.asked.count(("nvmlDeviceGetTemperature", FIRST, 0)) == 1


@pytest.mark.parametrize("error", [NOT_SUPPORTED, ATTRIBUTE, None], ids=["driver", "pynvml", "in the field"])
def test_without_momentary_power_the_average_is_taken(error, install):
    library = install(Library(nvmlDeviceGetFieldValues=error))
    if error is None:
        value = SimpleNamespace(nvmlReturn=NOT_SUPPORTED, value=SimpleNamespace(uiVal=0))
        library.nvmlDeviceGetFieldValues = lambda handle, fields: [value]

    found = measured()

    assert (found["power"]["median"], found["power_from"]) == (301.25, "usage")


def test_without_power_the_counter_still_gives_joules(install):
    install(Library(nvmlDeviceGetFieldValues=NOT_SUPPORTED, nvmlDeviceGetPowerUsage=NOT_SUPPORTED))

    found = measured()

    assert (found["power"], found["power_absent"], found["joules"]) == (None, "NVML: Not Supported", 700.0)
    assert "power_from" not in found


def test_a_device_that_is_lost_before_or_meanwhile_is_the_reason(install):
    library = install(Library())
    meter = Meter(FIRST).start()
    while ("nvmlDeviceGetCurrentClocksThrottleReasons", FIRST) not in library.asked:
        threading.Event().wait(0.001)
    library.lost = True
    while f"NVML {FIRST}" in [thread.name for thread in threading.enumerate()]:
        threading.Event().wait(0.001)

    assert all_absent(meter.stop(), "NVML: GPU is lost")
    assert all_absent(measured(), f"NVML has no device {FIRST}"), "a lost device has no UUID"
    assert library.open == 0


def test_a_call_that_hangs_is_given_up(install, monkeypatch):
    monkeypatch.setattr(telemetry, "LONGEST_READING", 0.01)
    library, answered = install(Library()), threading.Event()
    library.nvmlDeviceGetTemperature = lambda handle, sensor: answered.wait(60)

    found = Meter(FIRST).start().stop()
    answered.set()

    assert all_absent(found, "NVML did not respond within 0.01 s")
    assert library.open == 1  # the thread was inside


def test_a_system_that_starts_no_thread_is_the_reason(install, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    library = install(Library())
    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert all_absent(measured(), "NVML: can't start new thread")
    assert library.open == 0


# Which device


@pytest.mark.parametrize("device", [SECOND, SECOND.removeprefix("GPU-"), SECOND.removeprefix("GPU-").upper()])
def test_a_device_is_found_by_its_uuid(device, install):
    library = install(Library((FIRST, SECOND)))

    assert nvml.used_memory(device) == 2147483648
    assert ("nvmlDeviceGetMemoryInfo", SECOND) in library.asked
    assert ("nvmlDeviceGetMemoryInfo", FIRST) not in library.asked


@pytest.mark.parametrize("device", [INSTANCE, INSTANCE.removeprefix("MIG-")])
def test_an_instance_has_its_own_memory_and_no_power(device, install):
    install(Library())

    found = measured(device)

    assert found["used_memory"]["median"] == 19327352832
    assert found["power_absent"] == "a MIG instance has no power meter of its own"
    assert found["joules"] is None


def test_a_divided_card_is_not_taken_for_its_instance(install):
    library = install(Library())
    library.nvmlDeviceGetMigMode = lambda handle: [1, 1]

    assert f"{FIRST} is divided by MIG" in measured()["power_absent"]
    assert nvml.used_memory(FIRST) is None
    assert nvml.used_memory(INSTANCE) == 19327352832


def test_a_card_that_has_no_instances_is_whole(install):
    install(Library(nvmlDeviceGetMigMode=NOT_SUPPORTED))

    assert measured()["joules"] == 700.0


def test_an_unknown_uuid_is_no_device(install):
    library = install(Library())

    assert all_absent(measured(SECOND), f"NVML has no device {SECOND}")
    assert library.open == 0


@pytest.mark.parametrize("device", ["cpu", "mps", "cuda", "cuda:0", "GPU-4d0a", ""])
def test_another_name_starts_no_thread_and_opens_no_library(device, install):
    library, threads = install(Library()), threading.active_count()

    with Meter(device) as meter:
        assert threading.active_count() == threads

    assert all_absent(meter.telemetry, f"{device} has no NVML device: a UUID is expected")
    assert nvml.used_memory(device) is None
    assert library.asked == []


# Names and facts


def test_without_the_library_or_the_driver_there_is_no_device_and_a_reason(install, monkeypatch):
    library = install(Library(nvmlInit=NVMLError(12)))
    assert (nvml.devices(), nvml.facts(), nvml.used_memory(FIRST)) == ((), {}, None)
    assert all_absent(measured(), "no NVML: NVML Error with code 12")
    assert library.open == 0

    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert (nvml.devices(), nvml.facts(), nvml.used_memory(FIRST)) == ((), {}, None)
    assert measured()["power_absent"].startswith("no NVML: ")


def test_names_are_text_and_a_device_that_does_not_answer_is_named_so(install):
    install(Library((FIRST, SECOND), ["NVIDIA H200", b"NVIDIA L4"]))
    assert nvml.devices() == ("NVIDIA H200", "NVIDIA L4")

    def name(handle):
        if handle == FIRST:
            raise NVMLError(LOST)
        return "NVIDIA L4"

    install(Library((FIRST, SECOND))).nvmlDeviceGetName = name
    assert nvml.devices() == (nvml.SILENT, "NVIDIA L4")

    library = install(Library(nvmlDeviceGetCount=LOST))
    assert nvml.devices() == (nvml.SILENT,)
    assert library.open == 0


def test_facts_are_the_driver_s_and_each_device_s_or_have_a_reason(install):
    facts = {"driver": "570.86.15", "cuda": "12.8", "memory_bytes": [150754820096] * 2, "power_limit": [700.0] * 2}
    library = install(Library((FIRST, SECOND)))
    assert nvml.facts() == facts
    assert library.open == 0

    install(Library((FIRST, SECOND), nvmlDeviceGetPowerManagementLimit=NOT_SUPPORTED))
    assert nvml.facts() == {**facts, "power_limit": None, "power_limit_absent": "NVML: Not Supported"}

    install(Library(()))
    assert (nvml.devices(), nvml.facts()) == ((), {})


def test_the_installed_library_says_what_this_machine_has():
    """On a machine without a driver there is a reason, with one each field has a value or a reason."""
    pynvml, reason = pytest.importorskip("pynvml"), ""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        reason = f"no NVML: {error}"

    found = measured()

    assert (
        all_absent(found, reason)
        if reason
        else all(found[name] is not None or found[f"{name}_absent"] for name in FIELDS)
    )


def test_numbers_are_those_of_the_library():
    pynvml = pytest.importorskip("pynvml")

    ours = (nvml.SM, nvml.MEMORY, nvml.DIE, nvml.INSTANT_POWER)
    theirs = "CLOCK_SM", "CLOCK_MEM", "TEMPERATURE_GPU", "FI_DEV_POWER_INSTANT"
    assert ours == tuple(getattr(pynvml, f"NVML_{name}") for name in theirs)
    for bit, word in telemetry.THROTTLE_REASONS.items():
        name = f"nvmlClocksThrottleReason{word.title().replace('_', '')}"
        assert getattr(pynvml, name, bit if bit > 0x100 else None) == bit  # the later ones are new in 13
    assert isinstance(pynvml.c_nvmlFieldValue_t().value.uiVal, int)
    assert ctypes.sizeof(pynvml.c_nvmlMemory_t) == 24  # total, free, used


def test_telemetry_imports_neither_torch_nor_the_library():
    program = (
        "import sys; import attnsuite.machine.telemetry; assert not {'torch', 'pynvml', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# Summaries


def window(seconds=2.0, counter=(5000.0, 5700.0)):
    """A window that begins at 10 s, its counter read at both ends and its power once."""
    end = 10.0 + seconds
    readings = {"counter": list(zip((10.0, end), counter, strict=True)), "power": [(10.0, 300.0)]}
    return Window(10.0, end, readings, {}, "instant")


def test_joules_are_the_counter_s():
    assert summarised(window())["joules"] == 700.0


@pytest.mark.parametrize(
    ("taken", "reason"),
    [
        (window(0.99), "0.99 s are too short: energy needs 1 s"),
        (window(counter=(5000.0, 12.0)), "the energy counter went from 5000 to 12 J"),
        (window(counter=(1.0, 1.0)), "the energy counter went from 1 to 1 J"),
    ],
    ids=["short", "reset", "constant"],
)
def test_joules_are_absent_with_the_reason(taken, reason):
    found = summarised(taken)

    assert (found["joules"], found["joules_absent"]) == (None, reason)
    assert found["power"]["median"] == 300.0


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
        ([0x4 | 0x1000], ["sw_power_cap", "unknown_0x1000"]),
    ],
    ids=str,
)
def test_throttle_reasons_are_words(masks, words):
    found = summarised(Window(0.0, 9.0, {"throttle": [(float(place), mask) for place, mask in enumerate(masks)]}))

    assert found["throttle"] == words
