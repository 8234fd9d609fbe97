"""Modules exported to ONNX: a graph with the weights as inputs, and sessions with weights as its constants."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from torch import Tensor, nn


class Graph(NamedTuple):
    """What depends on the shapes of a model's weights and not on their numbers, and the seconds of its export."""

    model: onnx.ModelProto
    seconds: float


def graph(module: nn.Module, inputs: Sequence[Any], names: Sequence[str], dynamic: Sequence[Any], opset: int) -> Graph:
    """Export a module. `names` are of the tensors among its inputs, in order; `dynamic` says which sizes may change."""
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)  # it misses torchvision
    started = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of itself
        program = torch.onnx.export(
            module.eval(),
            tuple(inputs),
            dynamo=True,
            opset_version=opset,
            input_names=list(names),
            dynamic_shapes=tuple(dynamic),
            verbose=False,
        )
    assert program is not None
    return Graph(program.model_proto, perf_counter() - started)


def session(of: Graph, weights: Mapping[str, Tensor]) -> tuple[onnxruntime.InferenceSession, dict[str, float]]:
    """A session in which the weights are constants; what its making took, in seconds, and the bytes of its file."""
    model = onnx.ModelProto()
    model.CopyFrom(of.model)
    inputs = [given for given in model.graph.input if given.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.graph.initializer.extend(
        numpy_helper.from_array(tensor.contiguous().numpy(), name) for name, tensor in weights.items()
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    file, started = model.SerializeToString(), perf_counter()
    found = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return found, {"export": of.seconds, "session": perf_counter() - started, "file": float(len(file))}
