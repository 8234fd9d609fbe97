"""Modules exported to ONNX: a graph with the weights as inputs, and sessions with weights as its constants.

An export takes from 3 to 20 s, and each process would need its own: graphs are kept in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, wraps
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from torch import Tensor, nn

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "attnsuite", "graphs")
"""The folder in which exported graphs are kept, a file for each."""
SECONDS = "seconds of its export"
"""The name under which the file of a graph has the seconds that its export took."""
EXPORTERS = ("torch", "onnx", "onnxscript")
"""The libraries whose versions a graph depends on."""


class Graph(NamedTuple):
    """A graph that depends on the shapes of a model's weights, not on their numbers; and the seconds of its export."""

    model: onnx.ModelProto
    seconds: float


def graph(module: nn.Module, inputs: Sequence[Any], names: Sequence[str], dynamic: Sequence[Any], opset: int) -> Graph:
    """Export a module. `names` are those of its tensor inputs, in order; `dynamic` says which sizes may change."""
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


def kept(export: Callable[..., Graph]) -> Callable[..., Graph]:
    """The function with its graphs kept, in memory and in a file for each.

    A graph depends on the repr of the arguments, the sources of implementations and the versions of EXPORTERS: their
    hash names the file. A file that is damaged, or cannot be written, does no harm: the graph is exported again.
    """

    @cache
    @wraps(export)
    def found(*given: Any) -> Graph:
        name = hashlib.sha256(repr((export.__module__, given, *map(version, EXPORTERS))).encode())
        for source in sorted(Path(inspect.getfile(export)).parent.parent.rglob("*.py")):
            name.update(source.read_bytes())
        file = FOLDER.expanduser() / f"{name.hexdigest()[:32]}.onnx"
        with suppress(Exception):
            model = onnx.load(file)
            (seconds,) = (float(entry.value) for entry in model.metadata_props if entry.key == SECONDS)
            return Graph(model, seconds)
        made = export(*given)
        made.model.metadata_props.add(key=SECONDS, value=repr(made.seconds))
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            own = file.with_suffix(f".{os.getpid()}")  # no other process may read half a file
            try:
                own.write_bytes(made.model.SerializeToString())
                own.replace(file)
            finally:
                own.unlink(missing_ok=True)
        return made

    return found


def session(of: Graph, weights: Mapping[str, Tensor]) -> tuple[onnxruntime.InferenceSession, dict[str, float]]:
    """A session in which the weights are constants; the seconds that it took to make it, and the bytes of its file."""
    model = onnx.ModelProto()
    model.CopyFrom(of.model)
    inputs = [given for given in model.graph.input if given.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.graph.initializer.extend(
        numpy_helper.from_array(tensor.detach().contiguous().numpy(), name) for name, tensor in weights.items()
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    file, started = model.SerializeToString(), perf_counter()
    found = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return found, {"export": of.seconds, "session": perf_counter() - started, "file": float(len(file))}
