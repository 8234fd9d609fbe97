"""One window of a device's clocks, power and memory: every number in its unit, or the reason why it is absent."""

import ctypes
import threading
from types import SimpleNamespace

import pytest
from pretended_nvml import (
    FIELDS,
    FIRST,
    FUNCTION_NOT_FOUND,
    INSTANCE,
    NOT_SUPPORTED,
    SECOND,
    Library,
    all_absent,
    measured,
)

from attnsuite.machine import nvidia, nvml, telemetry


def test_a_window_tells_everything_in_its_unit(install):
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
    assert (found["power_from"], found["joules_from"]) == ("instant", "counter")
    assert found["samples"] >= 1
    assert found["seconds"] > 0
    assert not [name for name in found if name.endswith("_absent")]
    assert library.open == 0


def test_start_and_stop_do_what_the_context_does(install):
    install(Library())
    meter = nvidia.meter("cuda:0")

    assert all_absent(meter.stop(), "nothing was measured")
    assert meter.start() is meter
    first = meter.stop()

    assert first["samples"] >= 1
    assert meter.stop() is meter.telemetry is first
    with pytest.raises(RuntimeError, match="started before"):
        meter.start()


def test_a_body_that_raises_ends_the_window(install):
    library = install(Library())
    meter = nvidia.meter("cuda:0")

    with pytest.raises(ZeroDivisionError), meter:
        1 / 0  # noqa: B018  # raises

    assert meter.telemetry["samples"] >= 1
    assert library.open == 0
    assert "NVML cuda:0" not in [thread.name for thread in threading.enumerate()]


def test_a_system_that_starts_no_thread_is_the_reason(install, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    library = install(Library())
    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert all_absent(measured(), "NVML: can't start new thread")
    assert library.open == 0


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetTemperature", "temperature"),
        ("nvmlDeviceGetMemoryInfo", "used_memory"),
        ("nvmlDeviceGetCurrentClocksEventReasons", "throttle"),
    ],
)
def test_a_field_that_is_not_supported_leaves_the_others(function, field, install):
    install(Library(**{function: NOT_SUPPORTED}))

    found = measured()

    assert (found[field], found[f"{field}_absent"]) == (None, "NVML: Not Supported")
    assert [name for name in FIELDS if found[name] is None] == [field]


def test_a_field_that_is_not_supported_is_asked_once(install):
    library = install(Library(nvmlDeviceGetTemperature=NOT_SUPPORTED))

    with nvidia.meter("cuda:0"):
        while library.asked.count(("nvmlDeviceGetMemoryInfo", FIRST)) < 3:
            threading.Event().wait(0.001)

    assert library.asked.count(("nvmlDeviceGetTemperature", FIRST, 0)) == 1


def test_momentary_power_gives_way_to_what_older_drivers_tell(install):
    for error in (NOT_SUPPORTED, AttributeError("module 'pynvml' has no attribute 'nvmlDeviceGetFieldValues'")):
        install(Library(nvmlDeviceGetFieldValues=error))
        found = measured()
        assert (found["power"]["median"], found["power_from"]) == (301.25, "usage")


def test_a_field_value_that_carries_an_error_is_no_power(install):
    library = install(Library())
    library.nvmlDeviceGetFieldValues = lambda handle, fields: [
        SimpleNamespace(nvmlReturn=NOT_SUPPORTED, value=SimpleNamespace(uiVal=0))
    ]

    assert measured()["power_from"] == "usage"


def test_no_power_at_all_has_its_reason(install):
    install(Library(nvmlDeviceGetFieldValues=NOT_SUPPORTED, nvmlDeviceGetPowerUsage=NOT_SUPPORTED))

    found = measured()

    assert (found["power"], found["power_absent"]) == (None, "NVML: Not Supported")
    assert "power_from" not in found
    assert found["joules"] == 700.0


@pytest.mark.parametrize(
    "missing", [FUNCTION_NOT_FOUND, AttributeError("module 'pynvml' has no such attribute")], ids=["driver", "pynvml"]
)
def test_functions_that_were_renamed_are_asked_by_either_name(missing, install):
    library = install(Library(nvmlDeviceGetTemperature=missing, nvmlDeviceGetCurrentClocksEventReasons=missing))
    library.nvmlDeviceGetTemperatureV = lambda handle, sensor: 42
    library.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x20

    found = measured()

    assert found["temperature"]["median"] == 42
    assert found["throttle"] == ["sw_thermal_slowdown"]


def test_a_device_that_is_lost_in_between_ends_the_sampling_and_is_the_reason(install):
    library = install(Library())
    meter = nvidia.meter("cuda:0").start()
    while ("nvmlDeviceGetCurrentClocksEventReasons", FIRST) not in library.asked:
        threading.Event().wait(0.001)

    library.lost = True
    meter._thread.join(60)

    assert not meter._thread.is_alive()
    assert all_absent(meter.stop(), "NVML: GPU is lost")
    assert meter.telemetry["samples"] >= 1
    assert library.open == 0


def test_a_device_that_was_lost_before_is_the_reason(install):
    library = install(Library())
    library.lost = True

    with nvidia.meter("cuda:0") as meter:
        pass

    assert all_absent(meter.telemetry, "NVML: GPU is lost")
    assert library.open == 0


def test_errors_that_are_not_the_librarys_are_reasons_too(install):
    install(Library(nvmlDeviceGetTemperature=OSError("the bus is gone"), nvmlDeviceGetMemoryInfo=ValueError()))

    found = measured()

    assert found["temperature_absent"] == "NVML: the bus is gone"
    assert found["used_memory_absent"] == "NVML: ValueError"


def test_a_question_that_is_never_answered_is_given_up(install, monkeypatch):
    monkeypatch.setattr(nvidia, "LONGEST_ANSWER", 0.01)
    library, answered = install(Library()), threading.Event()
    library.nvmlDeviceGetTemperature = lambda handle, sensor: answered.wait(60)
    meter = nvidia.meter("cuda:0").start()

    found = meter.stop()
    answered.set()
    meter._thread.join(60)

    assert all_absent(found, "NVML has not answered for 0.01 s")
    assert library.open == 1  # the thread was inside


def test_an_instance_has_its_own_memory_and_no_power(install):
    install(Library())

    found = measured(INSTANCE)

    assert found["used_memory"]["median"] == 19327352832
    assert found["power_absent"] == found["joules_absent"] == "a MIG instance has no power meter of its own"


def test_a_divided_card_is_not_taken_for_its_instance(install):
    library = install(Library())
    library.nvmlDeviceGetMigMode = lambda handle: [1, 1]

    assert f"{FIRST} is divided by MIG" in measured("cuda:0")["power_absent"]
    assert nvidia.used_memory("cuda:0") is None
    assert nvidia.used_memory(INSTANCE) == 19327352832


def test_a_card_that_has_no_instances_is_whole(install):
    install(Library(nvmlDeviceGetMigMode=NOT_SUPPORTED))

    assert measured()["joules"] == 700.0


def test_numbers_are_those_of_the_library():
    pynvml = pytest.importorskip("pynvml")

    ours = (nvml._SM, nvml._MEMORY, nvml._DIE, nvml._INSTANT_POWER, nvml._FUNCTION_NOT_FOUND)
    theirs = "CLOCK_SM", "CLOCK_MEM", "TEMPERATURE_GPU", "FI_DEV_POWER_INSTANT", "ERROR_FUNCTION_NOT_FOUND"
    assert ours == tuple(getattr(pynvml, f"NVML_{name}") for name in theirs)
    for bit, word in telemetry.REASONS.items():
        name = f"nvmlClocksThrottleReason{word.title().replace('_', '')}"
        assert getattr(pynvml, name, bit if bit > 0x100 else None) == bit  # the later ones are new in 13
    assert isinstance(pynvml.c_nvmlFieldValue_t().value.uiVal, int)
    assert isinstance(pynvml.c_nvmlFieldValue_t().nvmlReturn, int)
    assert ctypes.sizeof(pynvml.c_nvmlMemory_t) == 24  # total, free, used


def test_the_environment_chooses_the_device_that_is_metered(install, monkeypatch):
    library = install(Library((FIRST, SECOND)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")

    measured("cuda:0")

    assert ("nvmlDeviceGetMemoryInfo", SECOND) in library.asked
    assert ("nvmlDeviceGetMemoryInfo", FIRST) not in library.asked
