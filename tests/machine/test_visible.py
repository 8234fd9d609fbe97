"""Which of NVML's devices a CUDA device is, whatever CUDA_VISIBLE_DEVICES shows."""

import pytest

from attnsuite.machine.telemetry import Absent
from attnsuite.machine.visible import addressed, uuid_of

FIRST, SECOND = "GPU-4d0a9b1e-52c7-8f3b-9a61-0c5f2e7d8b34", "GPU-4d77aa01-0e9c-1b2d-3c4e-5f6071829304"
INSTANCE = "MIG-7f1c6f0a-7c3e-5d55-8a52-3f0f6f1f2a10"
ALIKE = ("NVIDIA H200", "NVIDIA H200")


@pytest.mark.parametrize(
    ("device", "visible", "uuid"),
    [
        ("cuda", None, FIRST),
        ("cuda:0", None, FIRST),
        ("cuda:1", None, SECOND),
        ("cuda:0", "1", SECOND),
        ("cuda:1", "1,0", FIRST),
        ("cuda:0", " 1 , 0", SECOND),
        ("cuda:0", SECOND, SECOND),
        ("cuda:1", f"{SECOND[:8]},{FIRST}", FIRST),
        ("cuda:0", f"1,-1,{FIRST}", SECOND),
        ("cuda:0", INSTANCE, INSTANCE),
        ("cuda:0", f"MIG-{FIRST}/1/0", f"MIG-{FIRST}/1/0"),
        (FIRST, "1", FIRST),
        (SECOND.removeprefix("GPU-"), "0", SECOND),
        (SECOND.removeprefix("GPU-").upper(), None, SECOND),
        (INSTANCE, None, INSTANCE),
        (INSTANCE.removeprefix("MIG-"), None, INSTANCE),
        (f"MIG-{FIRST}/1/0", None, f"MIG-{FIRST}/1/0"),
    ],
)
def test_a_device_is_found_as_cuda_finds_it(device, visible, uuid):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    assert addressed(device)
    assert uuid_of(device, (FIRST, SECOND), ALIKE, environment) == uuid


@pytest.mark.parametrize(
    ("device", "visible", "shown"),
    [
        ("cuda:2", None, 2),
        ("cuda:1", "1", 1),
        ("cuda:0", "", 0),
        ("cuda:0", "-1", 0),
        ("cuda:1", "0,-1,1", 1),
        ("cuda:0", "7,0", 0),
        ("cuda:0", "GPU-4d", 0),  # the start of both
        ("cuda:0", "0,0", 0),
        ("cuda:0", f"0,{FIRST}", 0),
        ("cuda:0", "NoDevFiles", 0),
    ],
)
def test_a_number_that_cuda_does_not_show_is_no_device(device, visible, shown):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    with pytest.raises(Absent, match=f"CUDA sees {shown} devices, so there is no {device}$"):
        uuid_of(device, (FIRST, SECOND), ALIKE, environment)


def test_a_uuid_that_nvml_does_not_know_is_no_device():
    with pytest.raises(Absent, match=f"NVML has no device {SECOND}"):
        uuid_of(SECOND, (FIRST,), ALIKE[:1], {})


def test_unlike_devices_are_not_told_apart_by_number_alone():
    unlike = ("NVIDIA L4", "NVIDIA H200")
    by_bus = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

    for number in ({}, {"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}):
        with pytest.raises(Absent, match="give the UUID"):
            uuid_of("cuda:0", (FIRST, SECOND), unlike, number)
    assert uuid_of("cuda:1", (FIRST, SECOND), unlike, by_bus) == SECOND
    assert uuid_of("cuda:0", (FIRST, SECOND), unlike, {"CUDA_VISIBLE_DEVICES": SECOND}) == SECOND
    assert uuid_of(SECOND, (FIRST, SECOND), unlike, {}) == SECOND


@pytest.mark.parametrize("device", ["cpu", "mps", "cuda:x", "cuda:-1", "GPU-4d0a", "", "xcuda:0", "cuda:0 "])
def test_what_is_no_cuda_device_is_not_addressed(device):
    assert not addressed(device)
