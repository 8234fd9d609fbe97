"""The one seam to onnxruntime's execution providers: a session has the one of its device, or there is no session.

onnxruntime by itself goes on without a provider that is absent or fails, on the CPU. Here that is an error: who asks
for CUDA never gets the time of a CPU. PyTorch's profiler, and by it the column *what ran* of a benchmark, sees each
call under the name of the provider that the session really has: `onnxruntime CPUExecutionProvider`.
"""

from __future__ import annotations

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
"""onnxruntime's level that logs fatal errors only: every other one is raised as well."""


class Session:
    """A graph in onnxruntime, called with tensors by name; `provider` is the execution provider that it has."""

    def __init__(self, model: bytes | Path, device: torch.device | str = "cpu") -> None:
        """Raises NotImplementedError where onnxruntime has no provider for the device, or could not give it."""
        self.device = torch.device(device)
        due = absent_or(self.device)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = SILENT
        source = str(model) if isinstance(model, Path) else model
        self.session = onnxruntime.InferenceSession(source, options, providers=[(due, settings(self.device))])
        self.session.disable_fallback()
        self.provider = self.session.get_providers()[0]
        if self.provider != due:
            raise NotImplementedError(f"lacks {self.device.type}: onnxruntime gave {self.provider} in place of {due}")
        self.inputs = [each.name for each in self.session.get_inputs()]
        self.outputs = [each.name for each in self.session.get_outputs()]

    def __call__(self, **tensors: Tensor) -> tuple[Tensor, ...]:
        """The outputs in the graph's order, on the session's device. Tensors that the graph has no input for are left
        out.
        """
        given = {name: tensors[name].detach().contiguous() for name in self.inputs}
        if not torch.autograd._profiler_enabled():  # to note a call takes 10 µs, as much as a small call itself
            return self.run(given)
        with record_function(f"onnxruntime {self.provider}"):
            return self.run(given)

    def run(self, given: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The outputs for these inputs, all that there are and no others."""
        if self.device.type != "cpu":
            return self.bound(given)
        found = self.session.run(self.outputs, {name: tensor.numpy() for name, tensor in given.items()})
        return tuple(map(torch.from_numpy, found))

    def bound(self, given: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The outputs for tensors that are read where they lie: nothing is copied to the CPU and back."""
        binding, kind, number = self.session.io_binding(), self.device.type, self.device.index or 0
        for name, tensor in given.items():
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
    """What a provider is told: which device, and, of CUDA, not to round float32 to TF32, which it does by default."""
    return {"device_id": str(device.index or 0), "use_tf32": "0"} if device.type == "cuda" else {}


def absent_or(device: torch.device) -> str:
    """The provider of a device. Raises NotImplementedError, saying what there is, where onnxruntime has none."""
    there, due = onnxruntime.get_available_providers(), PROVIDERS.get(device.type, f"provider for {device.type}")
    if due not in there:
        has = f"onnxruntime {onnxruntime.__version__} has no {due}; it has {', '.join(there)}"
        raise NotImplementedError(f"lacks {device.type}: {has}")
    return due
