"""float32 is judged with all its bits: TF32, simulated here by its rounding, is off meanwhile and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import wraps
from typing import Any

import pytest
import torch
from targets import Write
from torch import Tensor
from torch.overrides import TorchFunctionMode

import attnsuite
from attnsuite.benchmark.measure.bench import Bench
from attnsuite.benchmark.measure.protocol import Job
from attnsuite.implementations.patch_embedding.torch_nn import patch_embedding
from attnsuite.implementations.vision_transformer.torch_nn import vision_transformer
from attnsuite.judging import float32
from attnsuite.model import FAILURES

SETTINGS: dict[str, Callable[[], object]] = {
    "older, products": lambda: torch.set_float32_matmul_precision("medium"),
    "older, cuDNN": lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
    "newer, CUDA's products": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "newer, cuDNN's convolutions": lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),
    "newer, oneDNN's products": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "newer, all": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
}
"""Ways to set how float32 is multiplied."""


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = float32.precision()
    yield
    float32.restore(before)


def rounded(number: Any) -> Any:
    """A tensor of float32 as the tensor cores of a GPU take it: 10 bits of fraction, rounded to the nearest."""
    if not isinstance(number, Tensor) or number.dtype != torch.float32:
        return number
    return ((number.detach().contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


class Gpu(TorchFunctionMode):
    """Rounds what convolutions take, as cuDNN does where its setting says so."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function is torch.nn.functional.conv2d and torch.backends.cudnn.conv.fp32_precision == "tf32":
            arguments = [rounded(each) for each in arguments]
        return function(*arguments, **(options or {}))


def on_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, and what it makes, with a GPU's convolutions."""

    @wraps(function)
    def simulated(*arguments: Any, **options: Any) -> Any:
        with Gpu():
            made = function(*arguments, **options)
        return on_gpu(made) if callable(made) and not isinstance(made, Tensor) else made

    return simulated


def failures(function: Callable[..., Any], contract: str, *cases: str) -> list[str]:
    """The cases that a function fails in float32 with a GPU's convolutions."""
    found = attnsuite.check(on_gpu(function), contract, dtypes="float32", cases=cases)
    assert found
    return [outcome.case for outcome in found if outcome.status in FAILURES]


CONVOLUTIONS = [
    (patch_embedding, "patch_embedding", ("plain", "size")),
    (vision_transformer, "vision_transformer", ("plain/usual",)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "contract", "cases"), CONVOLUTIONS)
def test_convolutions_of_float32_are_judged_without_tf32(
    function: Callable[..., Any], contract: str, cases: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert torch.backends.cudnn.conv.fp32_precision == "tf32", "PyTorch's default"

    assert failures(function, contract, *cases) == []
    monkeypatch.setattr(float32, "exact", nullcontext)
    assert failures(function, contract, *cases), "the simulation shows what TF32 does"


def test_a_worker_is_asked_without_tf32(write: Write) -> None:
    file = write(
        "kernel.py",
        """
        import torch
        torch.set_float32_matmul_precision("high")
        def attention(query, key, value):
            torch.get_float32_matmul_precision()
            assert torch.backends.cudnn.allow_tf32 is False
            assert torch.backends.cuda.matmul.fp32_precision in ("none", "ieee")
            return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
        """,
    )

    (outcome,) = attnsuite.check(f"{file}:attention", cases="plain/small", dtypes="float32", isolate=True)

    assert outcome.status == "passed", outcome.detail


def test_what_is_timed_is_timed_without_tf32() -> None:
    seen = set()

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen.add((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    job = Job("attention", "documents/one-sentence", "float32", "forward")
    answer = Bench(attention, "cpu")("prepare", {"job": vars(job)})

    assert "expected" in answer, answer
    assert seen == {("highest", False)}


@pytest.mark.parametrize("before", SETTINGS)
@pytest.mark.parametrize("within", SETTINGS)
def test_all_settings_are_exact_and_put_back(before: str, within: str) -> None:
    SETTINGS[before]()
    was = float32.precision()

    with float32.exact():
        now = float32.precision()
        assert now.cudnn is False
        assert {value for _, value in now.settings} <= {float32.EXACT, float32.UNSET}
        assert torch.get_float32_matmul_precision() == "highest", "both interfaces can be asked"
        SETTINGS[within]()

    assert float32.precision() == was


@pytest.mark.parametrize("setting", ["torch.backends.cuda.matmul.fp32_precision", "torch.backends.fp32_precision"])
def test_a_process_lives_whose_submission_sets_it_by_the_newer_interface(write: Write, setting: str) -> None:
    file = write(
        "kernel.py",
        f"""
        import torch
        {setting} = "tf32"
        def attention(query, key, value):
            {setting} = "tf32"
            return torch.nn.functional.scaled_dot_product_attention(query, key, value)
        """,
    )

    found = attnsuite.check(
        f"{file}:attention", cases=["plain/small", "plain/one_head"], dtypes="float32", isolate=True
    )

    assert [outcome.status for outcome in found] == ["passed", "passed"], found
