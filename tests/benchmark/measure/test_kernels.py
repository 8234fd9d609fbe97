"""The operators that really ran are named."""

from __future__ import annotations

import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.autograd import DeviceType
from torch.autograd.profiler import profile
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnsuite.benchmark.measure import kernels


def test_the_operator_that_really_ran_is_named() -> None:
    query, key, value = (torch.randn(1, 2, 256, 64) for _ in range(3))

    said = kernels.kernels(lambda: sdpa(query, key, value), "cpu")

    assert said.startswith("aten::_scaled_dot_product_flash_attention_for_cpu ")
    assert said.endswith("%")


def test_the_longest_is_named_first() -> None:
    query = torch.randn(32, 128, 128)  # a product that takes about as long as two exponentials: none of them is small

    said = kernels.kernels(lambda: (query @ query).exp().exp(), "cpu").split(", ")

    assert {"aten::bmm", "aten::exp"} <= {name.split()[0] for name in said}
    assert len(said) <= kernels.NAMED
    shares = [int(name.split()[1].removesuffix("%")) for name in said]
    assert shares == sorted(shares, reverse=True)
    assert 80 <= sum(shares) <= 101


def test_an_operator_s_own_time_is_what_the_profiler_s_table_says() -> None:
    query = torch.randn(4, 64, 64, requires_grad=True)
    with profile() as seen:
        torch.nn.functional.layer_norm(torch.einsum("bij,bjk->bik", query, query), (64,)).softmax(-1).sum().backward()
    assert seen.kineto_results is not None

    found = kernels.own_times(seen.kineto_results.events())

    table = {event.key: event.self_cpu_time_total for event in seen.key_averages()}
    assert len(table) > 10
    assert found == pytest.approx(table, abs=1e-6)
    assert any(event.cpu_time_total > event.self_cpu_time_total > 0 for event in seen.key_averages())


def test_what_the_profiler_does_not_see_is_not_named() -> None:
    assert kernels.kernels(lambda: time.sleep(0.05), "cpu") == ""


def event(name: str, microseconds: int, on: DeviceType = DeviceType.CUDA, mark: bool = False) -> Any:
    """An event as Kineto tells it."""
    told = {"name": name, "duration_ns": 1000 * microseconds, "device_type": on, "is_user_annotation": mark}
    return SimpleNamespace(**{of: lambda value=value: value for of, value in told.items()})


FUSED = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>, true>(flash::Flash_fwd_params)"
SEEN = [
    event("aten::scaled_dot_product_attention", 900, DeviceType.CPU),
    event("cudaLaunchKernel", 700, DeviceType.CPU),
    event("ProfilerStep", 500, mark=True),
    event(FUSED, 60),
    event("triton_red_fused_softmax_0", 30),
    event("void (anonymous namespace)::rounded<float>(float*)", 10),
]
"""What Kineto tells of a call on a GPU: operators and launches on the CPU, and on the device kernels and a mark."""


def test_on_a_gpu_kernels_are_named_those_of_no_operator_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def profiled(**options: Any) -> Any:
        asked.append(options)
        return nullcontext(SimpleNamespace(kineto_results=SimpleNamespace(events=lambda: SEEN)))

    monkeypatch.setattr(kernels, "profile", profiled)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)

    said = kernels.kernels(lambda: None, "cuda")

    assert said == "flash::flash_fwd_kernel 60%, triton_red_fused_softmax_0 30%, rounded 10%"
    assert asked
    assert all(options == {"use_device": "cuda", "use_kineto": True} for options in asked), (
        "else it is no kernel's time"
    )
