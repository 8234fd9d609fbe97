"""What is said of NVIDIA devices: here, where they are absent, and at the seam, with an H200's answers."""

import subprocess
import sys
import threading

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

from attnsuite.machine import nvidia

# Absent


def test_without_the_library_there_is_no_device_and_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)

    found = measured()

    assert nvidia.devices() == ()
    assert nvidia.facts() == {}
    assert nvidia.used_memory("cuda:0") is None
    assert found["power_absent"].startswith("no NVML: ")
    assert "pynvml" in found["power_absent"]
    assert all_absent(found, found["power_absent"])


def test_without_a_driver_there_is_no_device_and_a_reason(install):
    library = install(Library(nvmlInit=NVMLError(12)))

    assert nvidia.devices() == ()
    assert nvidia.facts() == {}
    assert nvidia.used_memory("cuda:0") is None
    assert all_absent(measured(), "no NVML: NVML Error with code 12")
    assert library.open == 0


def test_the_installed_library_says_what_this_machine_has():
    """For real: without a driver there is a reason, with one each field has a value or a reason."""
    pynvml = pytest.importorskip("pynvml")
    reason = ""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        reason = f"no NVML: {error}"

    found = measured()

    if reason:
        assert (nvidia.devices(), nvidia.facts(), nvidia.used_memory("cuda:0")) == ((), {}, None)
        assert all_absent(found, reason)
    else:
        assert len(nvidia.devices()) == pynvml.nvmlDeviceGetCount()
        assert all((found[name] is None) == (f"{name}_absent" in found) for name in FIELDS)


@pytest.mark.parametrize("device", ["cpu", "mps", "xpu:0"])
def test_another_device_has_no_telemetry_and_no_thread(device, install):
    library = install(Library())
    threads = threading.active_count()

    with nvidia.meter(device) as meter:
        assert threading.active_count() == threads

    assert all_absent(meter.telemetry, f"{device} has no NVML device")
    assert meter.telemetry["samples"] == 0
    assert nvidia.used_memory(device) is None
    assert library.asked == []


def test_nothing_here_imports_torch_or_the_library():
    program = "import sys; import attnsuite.machine.nvidia; assert not {'torch', 'pynvml', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


# Devices and facts


def test_names_are_text_whether_bytes_or_text(install):
    install(Library((FIRST, SECOND), ["NVIDIA H200", b"NVIDIA L4"]))

    assert nvidia.devices() == ("NVIDIA H200", "NVIDIA L4")


def test_a_device_that_does_not_answer_is_named_so(install):
    install(Library(nvmlDeviceGetName=LOST))
    assert nvidia.devices() == ("NVIDIA device that does not answer",)

    library = install(Library(nvmlDeviceGetCount=LOST))
    assert nvidia.devices() == ("NVIDIA device that does not answer",)
    assert library.open == 0


def test_a_device_that_is_lost_leaves_the_others_their_names(install):
    def name(handle):
        if handle == FIRST:
            raise NVMLError(LOST)
        return "NVIDIA L4"

    install(Library((FIRST, SECOND))).nvmlDeviceGetName = name

    assert nvidia.devices() == ("NVIDIA device that does not answer", "NVIDIA L4")


def test_facts_are_the_drivers_and_each_devices(install):
    library = install(Library((FIRST, SECOND)))

    assert nvidia.facts() == {
        "driver": "570.86.15",
        "cuda": "12.8",
        "memory_bytes": [150754820096, 150754820096],
        "power_limit": [700.0, 700.0],
    }
    assert library.open == 0


def test_a_fact_that_is_not_told_has_its_reason(install):
    install(Library(nvmlDeviceGetPowerManagementLimit=NOT_SUPPORTED))

    found = nvidia.facts()

    assert found["power_limit"] is None
    assert found["power_limit_absent"] == "NVML: Not Supported"
    assert found["driver"] == "570.86.15"


def test_a_driver_without_devices_has_no_facts(install):
    install(Library(()))

    assert nvidia.devices() == ()
    assert nvidia.facts() == {}


def test_used_memory_is_of_the_device_that_was_named(install):
    library = install(Library())

    assert nvidia.used_memory(FIRST) == 2147483648
    assert nvidia.used_memory(INSTANCE) == 19327352832
    assert nvidia.used_memory(SECOND) is None
    assert library.open == 0
