"""Sessions of onnxruntime with the execution provider of their device.

onnxruntime falls back to the CPU if a provider is absent or fails. Here that is an error, so that a time on CUDA is
never the time of a CPU. PyTorch's profiler, and with it the column *what ran* of a benchmark, sees each call under the
name of the session's provider: `onnxruntime CPUExecutionProvider`.
"""

from collections.abc import Mapping
from pathlib import Path

import onnxruntime
import torch
from onnx import TensorProto
from torch import Tensor
from torch.profiler import record_function

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
"""The execution provider of each kind of device."""
ELEMENTS = {
    torch.bool: TensorProto.BOOL,
    torch.int64: TensorProto.INT64,
    torch.float16: TensorProto.FLOAT16,
    torch.bfloat16: TensorProto.BFLOAT16,
    torch.float32: TensorProto.FLOAT,
    torch.float64: TensorProto.DOUBLE,
}
"""ONNX's number for each dtype."""
SILENT = 4
"""onnxruntime's level that logs fatal errors only: all others are raised too."""


class Session:
    """A graph in onnxruntime, called with tensors by name; `provider` is the execution provider that it has."""

    def __init__(self, model: bytes | Path, device: torch.device | str = "cpu") -> None:
        """Raises NotImplementedError if onnxruntime has no provider for the device, or cannot load it."""
        self.device = torch.device(device)
        provider = provider_of(self.device)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = SILENT
        source = str(model) if isinstance(model, Path) else model
        self.session = onnxruntime.InferenceSession(source, options, providers=[(provider, settings(self.device))])
        self.session.disable_fallback()
        self.provider = self.session.get_providers()[0]
        if self.provider != provider:
            raise NotImplementedError(
                f"lacks {self.device.type}: onnxruntime loaded {self.provider} in place of {provider}"
            )
        self.inputs = [value.name for value in self.session.get_inputs()]
        self.outputs = [value.name for value in self.session.get_outputs()]

    def __call__(self, **tensors: Tensor) -> tuple[Tensor, ...]:
        """The outputs in the graph's order, on the session's device. Tensors that are not inputs are ignored."""
        inputs = {name: tensors[name].detach().contiguous() for name in self.inputs}
        if not torch.autograd._profiler_enabled():  # recording takes 10 µs, as long as a small call
            return self.run(inputs)
        with record_function(f"onnxruntime {self.provider}"):
            return self.run(inputs)

    def run(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The outputs for exactly the inputs of the graph."""
        if self.device.type != "cpu":
            return self.bound(inputs)
        outputs = self.session.run(self.outputs, {name: tensor.numpy() for name, tensor in inputs.items()})
        return tuple(map(torch.from_numpy, outputs))

    def bound(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The outputs for tensors on a device, without copies to the CPU and back."""
        binding, kind, number = self.session.io_binding(), self.device.type, self.device.index or 0
        for name, tensor in inputs.items():
            shape, place = tuple(tensor.shape), tensor.data_ptr()
            binding.bind_input(name, kind, number, ELEMENTS[tensor.dtype], shape, place)
        for name in self.outputs:
            binding.bind_output(name, kind, number)
        if kind == "cuda":
            torch.cuda.synchronize(self.device)  # onnxruntime has a stream of its own
        self.session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return tuple(torch.from_dlpack(value).clone() for value in binding.get_outputs())


def settings(device: torch.device) -> dict[str, str]:
    """The options of a provider: its device, and for CUDA no rounding of float32 to TF32, its default."""
    return {"device_id": str(device.index or 0), "use_tf32": "0"} if device.type == "cuda" else {}


def provider_of(device: torch.device) -> str:
    """The provider of a device. Raises NotImplementedError, with the available ones, if onnxruntime has none."""
    available = onnxruntime.get_available_providers()
    provider = PROVIDERS.get(device.type, f"provider for {device.type}")
    if provider not in available:
        has = f"onnxruntime {onnxruntime.__version__} has no {provider}; it has {', '.join(available)}"
        raise NotImplementedError(f"lacks {device.type}: {has}")
    return provider
