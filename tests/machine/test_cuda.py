"""A device that PyTorch cannot use is named in one line, before anything is started."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from attnsuite.benchmark.measure.memory import device_uuid
from attnsuite.conformance.request import check_device
from attnsuite.model import UsageError

TOO_OLD = (
    "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU\n"
    "driver by downloading and installing a new version. (Triggered internally at CUDAFunctions.cpp:108.)"
)
NO_MEMORY = "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call."
BUILT = ["sm_75", "sm_80", "sm_86", "sm_90a", "compute_90"]


@pytest.fixture
def _gpus(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Devices: a count, or a warning of PyTorch; the compute capability, or an error; what PyTorch is built for."""
    count, capability, built = request.param

    def is_available() -> bool:
        if isinstance(count, str):
            warnings.warn(count, stacklevel=1)
        return not isinstance(count, str) and count > 0

    def of_device(_: Any) -> Any:
        if isinstance(capability, Exception):
            raise capability
        return capability

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "get_device_capability", of_device)
    monkeypatch.setattr(torch.cuda, "get_device_properties", of_device)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "A GPU")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: built)


@pytest.mark.parametrize(
    ("_gpus", "device", "reason"),
    [
        ((0, (9, 0), BUILT), "cuda", "finds no CUDA device; use --device cpu"),
        ((TOO_OLD, (9, 0), BUILT), "cuda", "driver on your system is too old (found version 11040)); use --device cpu"),
        ((1, (9, 0), BUILT), "cuda:1", "this machine has 1, cuda:0 to cuda:0"),
        ((1, (7, 0), BUILT), "cuda", "A GPU has compute capability 7.0; torch "),
        ((1, (9, 0), ["sm_100", "sm_120"]), "cuda", "A GPU has compute capability 9.0; torch "),
        ((1, (10, 0), ["sm_90a"]), "cuda", "is built for sm_90a"),
        ((1, RuntimeError(NO_MEMORY), BUILT), "cuda", "does not respond: CUDA error: out of memory; another process"),
    ],
    indirect=["_gpus"],
)
@pytest.mark.usefixtures("_gpus")
def test_a_device_that_cannot_be_used_has_a_reason(device: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"^no device {device}: ") as error:
        check_device(device)

    assert reason in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "_gpus",
    [
        (1, (7, 5), BUILT),
        (1, (8, 9), BUILT),
        (1, (9, 0), BUILT),
        (1, (12, 0), BUILT),
        (1, (9, 4), ["gfx942"]),
        (1, (9, 0), []),
    ],
    indirect=True,
)
@pytest.mark.usefixtures("_gpus")
def test_a_device_that_code_or_ptx_of_the_build_runs_on_is_accepted() -> None:
    check_device("cuda")


@pytest.mark.parametrize("_gpus", [(1, RuntimeError(NO_MEMORY), BUILT)], indirect=True)
@pytest.mark.usefixtures("_gpus")
def test_a_device_whose_memory_is_exhausted_ends_no_benchmark() -> None:
    """The suite's own process only asks for its UUID, for telemetry; the rows of the table say what happened."""
    assert device_uuid("cuda") == ""
