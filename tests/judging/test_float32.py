"""float32 is judged with all its bits: TF32, simulated here by its rounding, is off meanwhile and restored."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import wraps
from typing import Any

import pytest
import torch
from msgspec.structs import asdict
from targets import Write
from torch import Tensor
from torch.overrides import TorchFunctionMode

import attnsuite
from attnsuite.benchmark.measure.bench import Bench
from attnsuite.benchmark.measure.messages import Job
from attnsuite.implementations.patch_embedding.torch_nn import patch_embedding
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


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = float32.precision()
    yield
    float32.restore(before)


class Gpu(TorchFunctionMode):
    """Rounds the inputs of convolutions to 10 bits of fraction, as cuDNN does where its setting says so."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function is torch.nn.functional.conv2d and torch.backends.cudnn.conv.fp32_precision == "tf32":
            arguments = [self.rounded(argument) for argument in arguments]
        return function(*arguments, **(options or {}))

    @staticmethod
    def rounded(number: Any) -> Any:
        if not isinstance(number, Tensor) or number.dtype != torch.float32:
            return number
        return ((number.detach().contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


@wraps(patch_embedding)
def on_gpu(*arguments: Any, **options: Any) -> Any:
    with Gpu():
        return patch_embedding(*arguments, **options)


@pytest.mark.slow
def test_convolutions_of_float32_are_judged_without_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    def failures() -> list[str]:
        outcomes = attnsuite.check(on_gpu, "patch_embedding", dtypes="float32", cases=("plain", "size"))
        assert outcomes
        return [outcome.case for outcome in outcomes if outcome.status in FAILURES]

    assert torch.backends.cudnn.conv.fp32_precision == "tf32", "PyTorch's default"
    assert failures() == []
    monkeypatch.setattr(float32, "exact", nullcontext)
    assert failures(), "the simulation shows what TF32 does"


NEWER = ["torch.backends.cuda.matmul.fp32_precision", "torch.backends.fp32_precision"]
READS_BOTH = """torch.get_float32_matmul_precision()
    assert torch.backends.cudnn.allow_tf32 is False
    assert torch.backends.cuda.matmul.fp32_precision in ("none", "ieee")"""


@pytest.mark.parametrize(
    ("at_import", "in_call"),
    [('torch.set_float32_matmul_precision("high")', READS_BOTH), *((f'{name} = "tf32"',) * 2 for name in NEWER)],
)
def test_a_worker_runs_without_tf32_and_a_submission_may_use_either_interface(
    write: Write, at_import: str, in_call: str
) -> None:
    file = write(
        "kernel.py",
        f"import torch\n{at_import}\ndef attention(query, key, value):\n    {in_call}\n"
        "    return torch.nn.functional.scaled_dot_product_attention(query, key, value)\n",
    )

    outcomes = attnsuite.check(f"{file}:attention", cases="plain/small", dtypes="float32", isolate=True)

    assert [outcome.status for outcome in outcomes] == ["passed"], outcomes


def test_a_benchmark_runs_without_tf32() -> None:
    seen = set()

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen.add((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    job = Job("attention", "documents/one-sentence", "float32", "forward")
    answer = Bench(attention, "cpu")("prepare", {"job": asdict(job)})

    assert "expected" in answer, answer
    assert seen == {("highest", False)}


@pytest.mark.parametrize("before", SETTINGS)
@pytest.mark.parametrize("within", SETTINGS)
def test_all_settings_are_exact_and_restored(before: str, within: str) -> None:
    SETTINGS[before]()
    earlier = float32.precision()

    with float32.exact():
        now = float32.precision()
        assert now.cudnn is False
        assert {value for _, value in now.settings} <= {float32.EXACT, float32.UNSET}
        assert torch.get_float32_matmul_precision() == "highest", "both interfaces can be read"
        SETTINGS[within]()

    assert float32.precision() == earlier
