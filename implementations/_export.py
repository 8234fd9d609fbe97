"""Models as ONNX graphs: exported with their weights as inputs, cached, completed with weights, and run.

An export takes from 1 to 20 s, so graphs are stored in the user's cache folder.
"""

import hashlib
import inspect
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, wraps
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import onnx
import torch
from onnx import TensorProto
from torch import Tensor, nn
from torch.export import Dim

from attnsuite.implementations._sessions import ELEMENTS, Session

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "attnsuite", "graphs")
"""The folder of exported graphs, a file for each."""
SECONDS = "seconds of its export"
"""The key of the export's seconds in the metadata of a graph's file."""
EXPORTERS = ("torch", "onnx", "onnxscript")
"""The libraries whose versions a graph depends on."""
LARGEST = 2**31 - 2**20
"""Bytes of weights in a graph's own file: protobuf writes no message of 2 GiB, and the nodes take some of it."""
ALIGNED = 4096
"""Bytes of a page of memory: tensors in a separate file begin at multiples of it, so that they can be mapped."""

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
Model = Callable[..., Tensor]
Run = Callable[..., tuple[Tensor, ...]]
"""Runs one part with its inputs by name: a session, or the module itself."""


class Graph(NamedTuple):
    """A graph that depends on the shapes of a model's weights, not on their numbers; and the seconds of its export."""

    model: onnx.ModelProto
    seconds: float


class PartModule(nn.Module):
    """A part of the models of a config. Inputs and weights are lists, weights sorted by name."""

    shapes: Callable[[Config], Mapping[str, tuple[int, ...]]]

    def __init__(self, config: Config, inputs: Sequence[str]) -> None:
        super().__init__()
        self.config, self.inputs, self.names = config, list(inputs), sorted(self.shapes(config))

    def forward(self, inputs: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
        named = dict(zip(self.names, weights, strict=True))
        return self.outputs(named, **dict(zip(self.inputs, inputs, strict=True)))

    def outputs(self, weights: Weights, **inputs: Tensor) -> tuple[Tensor, ...]:
        raise NotImplementedError


@dataclass(frozen=True)
class Part:
    """A part of a model that becomes one graph. `module(inputs, weights)` takes lists, weights sorted by name."""

    module: nn.Module
    inputs: Mapping[str, Tensor]
    """Examples: every axis of variable size has a size of its own, not 0 or 1."""
    outputs: Sequence[str]
    axes: Mapping[str, Sequence[str | int]]
    """The axes of inputs and outputs: a number is a fixed size, a word names a variable one."""

    def run(self, weights: Weights) -> Run:
        """The part computed by PyTorch."""
        ordered = [weights[name] for name in sorted(weights)]
        return lambda **tensors: self.module([tensors[name] for name in self.inputs], ordered)


@dataclass(frozen=True)
class Exports:
    """How `attnsuite export` writes the implementations of a contract to files."""

    usual: Config
    """The config of an export that names no other."""
    check: Callable[[Config], None]
    """Raises ValueError for a config that no model can be made of."""
    shapes: Callable[[Config], Mapping[str, tuple[int, ...]]]
    """The expected shapes of the weights by name."""
    parts: Mapping[str, str]
    """The description of each graph by name. The first is the complete model."""
    part: Callable[[Config, torch.dtype, str], Part]
    """Raises ValueError for a part that a model of this config does not have."""
    assemble: Callable[[Config, Weights, Mapping[str, Run]], Model]
    """Makes the model that runs these parts; PyTorch computes the others."""
    opset: int
    """The opset of an export that names no other."""
    quantised: bool = False
    """Whether its weights are rounded to 8 bits, so that no limit of its errors is promised."""

    def graph(self, config: Config, dtype: torch.dtype, opset: int, part: str) -> Graph:
        """Export a part."""
        shapes = dict(sorted(self.shapes(config).items()))
        return exported(self.part(config, dtype, part), tuple(shapes), tuple(shapes.values()), dtype, opset)

    def write(self, model: onnx.ModelProto, weights: Weights, file: Path, above: int = LARGEST) -> None:
        """Write a graph with its weights; those of more than `above` bytes into `FILE.data`."""
        written(self.completed(model, weights), weights, file, above)

    def completed(self, model: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
        """The graph without inputs for weights; quantised if `quantised` says so."""
        return quantised(model, weights) if self.quantised else without_inputs(model, weights)

    open = staticmethod(Session)

    def opened(self, graph: Graph, weights: Weights, device: torch.device) -> tuple[Run, dict[str, float]]:
        """A session with these weights, and by name the seconds of its making and the bytes of its files."""
        if self.quantised and any(tensor.dtype != torch.float32 for tensor in weights.values()):
            return _float32_alone, {}
        return opened(graph._replace(model=self.completed(graph.model, weights)), weights, device)


def exported(
    part: Part, names: Sequence[str], shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, opset: int
) -> Graph:
    """Export a part: its inputs, then weights of these names and shapes."""
    words = {axis for axes in part.axes.values() for axis in axes if isinstance(axis, str)}
    sizes = {word: Dim(word) for word in words}
    dynamic = [
        {place: sizes[word] for place, word in enumerate(part.axes[name]) if isinstance(word, str)}
        for name in part.inputs
    ]
    weights = [torch.zeros((), dtype=dtype).expand(shape) for shape in shapes]
    inputs = (list(part.inputs.values()), weights)
    names = [*part.inputs, *names]
    model, seconds = graph(part.module, inputs, names, (dynamic, [None] * len(weights)), opset, part.outputs)
    return Graph(readable(model, part), seconds)


def graph(
    module: nn.Module,
    inputs: Sequence[Any],
    names: Sequence[str],
    dynamic: Sequence[Any],
    opset: int,
    outputs: Sequence[str] | None = None,
) -> Graph:
    """Export a module. `names` are those of its tensor inputs, in order; `dynamic` says which sizes may change.

    Raises ValueError where the opset cannot express the module.
    """
    started = perf_counter()
    with warnings.catch_warnings(), _unlogged():
        warnings.simplefilter("ignore")  # torch warns of itself
        program = torch.onnx.export(
            module.eval(),
            tuple(inputs),
            dynamo=True,
            opset_version=opset,
            input_names=list(names),
            output_names=None if outputs is None else list(outputs),
            dynamic_shapes=tuple(dynamic),
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    actual = next(entry.version for entry in model.opset_import if not entry.domain)
    if actual != opset:
        raise ValueError(f"PyTorch's exporter made a graph of opset {actual}, expected {opset}")
    return Graph(model, perf_counter() - started)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Disable the log: exporters print tracebacks of optional libraries that they do not find."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def readable(model: onnx.ModelProto, part: Part) -> onnx.ModelProto:
    """The graph with the axes of its inputs and outputs named, and without the exporter's notes on each node."""
    for value in (*model.graph.input, *model.graph.output):
        for axis, word in zip(value.type.tensor_type.shape.dim, part.axes.get(value.name, ()), strict=False):
            axis.Clear()
            setattr(axis, "dim_param" if isinstance(word, str) else "dim_value", word)
    del model.graph.value_info[:]  # PyTorch's names for sizes of intermediate results
    del model.metadata_props[:]
    _without_notes(model.graph)
    return model


def _without_notes(graph: onnx.GraphProto) -> None:
    """Delete the exporter's notes about its own sources, in loops too."""
    for noted in (graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        del noted.metadata_props[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _without_notes(attribute.g)


def cached(export: Callable[..., Graph]) -> Callable[..., Graph]:
    """The function with its graphs cached in memory, and in a file for each.

    A graph depends on the repr of the arguments, the sources in its folder, those that all implementations share, and
    the versions of EXPORTERS: their hash names the file. If a file is damaged or cannot be written, the graph is
    exported again.
    """

    @cache
    @wraps(export)
    def stored(*arguments: Any) -> Graph:
        name = hashlib.sha256(repr((export.__module__, arguments, *map(version, EXPORTERS))).encode())
        own = Path(inspect.getfile(export)).parent
        for source in (*sorted(own.glob("*.py")), *sorted(own.parent.glob("_*.py"))):
            name.update(source.read_bytes())
        file = FOLDER.expanduser() / f"{name.hexdigest()[:32]}.onnx"
        with suppress(Exception):
            model = onnx.load(file)
            (seconds,) = (float(entry.value) for entry in model.metadata_props if entry.key == SECONDS)
            return Graph(model, seconds)
        graph = export(*arguments)
        graph.model.metadata_props.add(key=SECONDS, value=repr(graph.seconds))
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            own = file.with_suffix(f".{os.getpid()}")  # no other process may read half a file
            try:
                own.write_bytes(graph.model.SerializeToString())
                own.replace(file)
            finally:
                own.unlink(missing_ok=True)
        return graph

    return stored


def without_inputs(model: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
    """A copy of the graph without inputs for weights, which become constants."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    inputs = [value for value in copy.graph.input if value.name not in weights]
    del copy.graph.input[:]
    copy.graph.input.extend(inputs)
    return copy


def written(model: onnx.ModelProto, weights: Weights, file: Path, above: int = LARGEST) -> None:
    """Write a graph without inputs for weights, and the weights that it uses."""
    constants = {tensor.name for tensor in model.graph.initializer}  # quantising writes its own
    used = {name for node in model.graph.node for name in _read(node)} - constants
    weights = {name: tensor for name, tensor in weights.items() if name in used}
    if sum(tensor.nbytes for tensor in weights.values()) > above:
        _write_data(model, weights, file.with_name(f"{file.name}.data"))
    else:
        model.graph.initializer.extend(_constant(name, tensor) for name, tensor in weights.items())
    file.write_bytes(model.SerializeToString())


def _read(node: onnx.NodeProto) -> set[str]:
    """The names that a node reads, those inside its loops too."""
    inner = (child for attribute in node.attribute if attribute.HasField("g") for child in attribute.g.node)
    return {*node.input}.union(*map(_read, inner))


def _constant(name: str, tensor: Tensor) -> TensorProto:
    """A tensor as protobuf, by its bytes: numpy has no bfloat16."""
    return TensorProto(name=name, data_type=ELEMENTS[tensor.dtype], dims=tensor.shape, raw_data=_bytes(tensor))


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _write_data(model: onnx.ModelProto, weights: Weights, data: Path) -> None:
    """Write the numbers into a separate file, to which the graph refers by name, one tensor at a time."""
    with data.open("wb") as file:
        for name, tensor in weights.items():
            file.write(b"\0" * (-file.tell() % ALIGNED))
            tensor_in_file = model.graph.initializer.add(name=name, data_type=ELEMENTS[tensor.dtype], dims=tensor.shape)
            tensor_in_file.data_location = TensorProto.EXTERNAL
            place = {"location": data.name, "offset": str(file.tell()), "length": str(tensor.nbytes)}
            for key, value in place.items():
                tensor_in_file.external_data.add(key=key, value=value)
            file.write(_bytes(tensor))


def _float32_alone(**tensors: Tensor) -> tuple[Tensor, ...]:
    """Runs in place of a graph that cannot be quantised, so that bad input still raises its own error."""
    raise NotImplementedError("onnxruntime quantises graphs of float32 alone")


def quantised(model: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
    """The graph whose matrix products by weights are those of 8-bit integers; inputs are rounded call by call.

    Each column of a weight has a scale; that of an input is computed in each call from its largest and least number.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    completed = without_inputs(model, weights)
    completed.graph.initializer.extend(_constant(name, tensor) for name, tensor in weights.items())
    with TemporaryDirectory() as folder:
        file = Path(folder, "quantised.onnx")
        with _unlogged():
            quantize_dynamic(completed, file, ["MatMul"], per_channel=True, weight_type=QuantType.QInt8)
        return onnx.load(file)


def opened(graph: Graph, weights: Weights, device: torch.device) -> tuple[Session, dict[str, float]]:
    """A session with the weights as constants, and by name the seconds of its making and the bytes of its files.

    The files are deleted when the session has read them.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder, "graph.onnx")
        written(graph.model, weights, file)
        size, started = sum(path.stat().st_size for path in file.parent.iterdir()), perf_counter()
        session = Session(file, device)
        return session, {"export": graph.seconds, "session": perf_counter() - started, "file": float(size)}
