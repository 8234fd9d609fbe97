"""Models as ONNX graphs: exported with their weights as inputs, kept, completed with weights, and run.

An export takes from 1 to 20 s, and each process would need its own: graphs are kept in the user's cache folder.
"""

from __future__ import annotations

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
"""The folder in which exported graphs are kept, a file for each."""
SECONDS = "seconds of its export"
"""The name under which the file of a graph has the seconds that its export took."""
EXPORTERS = ("torch", "onnx", "onnxscript")
"""The libraries whose versions a graph depends on."""
LARGEST = 2**31 - 2**20
"""Bytes of weights that go into a graph's own file: protobuf writes no message of 2 GiB, and the nodes need room."""
ALIGNED = 4096
"""Bytes: every tensor in a file of its own begins at a multiple of it, a page, so that it can be mapped into memory."""

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
Model = Callable[..., Tensor]
Run = Callable[..., tuple[Tensor, ...]]
"""Runs one part with its inputs by name: a session, or the module itself."""


class Graph(NamedTuple):
    """A graph that depends on the shapes of a model's weights, not on their numbers; and the seconds of its export."""

    model: onnx.ModelProto
    seconds: float


@dataclass(frozen=True)
class Part:
    """What of a model becomes one graph. `module(inputs, weights)` takes lists, weights in the order of their names."""

    module: nn.Module
    inputs: Mapping[str, Tensor]
    """Examples: every axis that may have any size has one of its own, not 0 or 1."""
    outputs: Sequence[str]
    axes: Mapping[str, Sequence[str | int]]
    """The axes of inputs and outputs: a number is a size that is fixed, a word names one that may change."""

    def run(self, weights: Weights) -> Run:
        """The part computed by PyTorch."""
        given = [weights[name] for name in sorted(weights)]
        return lambda **tensors: self.module([tensors[name] for name in self.inputs], given)


@dataclass(frozen=True)
class Exports:
    """How the implementations of a contract are written to files: what `attnsuite export` asks of them."""

    usual: Config
    """The config of who names none."""
    check: Callable[[Config], None]
    """Raises ValueError for a config that no model can be made of."""
    shapes: Callable[[Config], Mapping[str, tuple[int, ...]]]
    """The weights that are due, by name."""
    parts: Mapping[str, str]
    """The graphs that there are, and each in words. The first is the whole model."""
    part: Callable[[Config, torch.dtype, str], Part]
    """Raises ValueError for a part that a model of this config does not have."""
    answering: Callable[[Config, Weights, Mapping[str, Run]], Model]
    """The model that answers by running these parts; a part that it lacks is computed by PyTorch."""
    opset: int
    """The opset of who names none."""
    quantised: bool = False
    """Whether its weights are rounded to 8 bits, so that no limit of its errors is promised."""

    def graph(self, config: Config, dtype: torch.dtype, opset: int, part: str) -> Graph:
        """Export a part anew."""
        due = dict(sorted(self.shapes(config).items()))
        return exported(self.part(config, dtype, part), tuple(due), tuple(due.values()), dtype, opset)

    def write(self, model: onnx.ModelProto, weights: Weights, file: Path, above: int = LARGEST) -> None:
        """Write a graph with its weights; those of more than `above` bytes into `FILE.data` beside it."""
        written(self.completed(model, weights), weights, file, above)

    def completed(self, model: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
        """The graph without inputs for weights; quantised where that is promised, which needs their numbers."""
        return quantised(model, weights) if self.quantised else without_inputs(model, weights)

    open = staticmethod(Session)

    def opened(self, graph: Graph, weights: Weights, device: torch.device) -> tuple[Run, dict[str, float]]:
        """A session with weights in it; the seconds that it took to make it, and the bytes of its files."""
        if self.quantised and any(tensor.dtype != torch.float32 for tensor in weights.values()):
            return _float32_alone, {}
        return opened(graph._replace(model=self.completed(graph.model, weights)), weights, device)


def exported(
    part: Part, names: Sequence[str], shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, opset: int
) -> Graph:
    """Export a part: its inputs, then weights of these names and shapes."""
    words = {each for axes in part.axes.values() for each in axes if isinstance(each, str)}
    sizes = {word: Dim(word) for word in words}
    dynamic = [
        {place: sizes[word] for place, word in enumerate(part.axes[name]) if isinstance(word, str)}
        for name in part.inputs
    ]
    weights = [torch.zeros((), dtype=dtype).expand(shape) for shape in shapes]
    given = (list(part.inputs.values()), weights)
    names = [*part.inputs, *names]
    made = graph(part.module, given, names, (dynamic, [None] * len(weights)), opset, part.outputs)
    return Graph(readable(made.model, part), made.seconds)


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
    came = next(each.version for each in model.opset_import if not each.domain)
    if came != opset:
        raise ValueError(f"PyTorch's exporter made a graph of opset {came}, not of {opset}")
    return Graph(model, perf_counter() - started)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Without lines in the log: exporters miss torchvision, and print whole tracebacks of what they go on without."""
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
    del model.graph.value_info[:]  # sizes of what lies between, in names of PyTorch's own
    del model.metadata_props[:]
    _without_notes(model.graph)
    return model


def _without_notes(graph: onnx.GraphProto) -> None:
    """Delete what the exporter notes of its own sources, in loops too."""
    for noted in (graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        del noted.metadata_props[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _without_notes(attribute.g)


def kept(export: Callable[..., Graph]) -> Callable[..., Graph]:
    """The function with its graphs kept, in memory and in a file for each.

    A graph depends on the repr of the arguments, the sources beside its own and those that all implementations share,
    and the versions of EXPORTERS: their hash names the file. A file that is damaged, or cannot be written, does no
    harm: the graph is exported again.
    """

    @cache
    @wraps(export)
    def found(*given: Any) -> Graph:
        name = hashlib.sha256(repr((export.__module__, given, *map(version, EXPORTERS))).encode())
        own = Path(inspect.getfile(export)).parent
        for source in (*sorted(own.glob("*.py")), *sorted(own.parent.glob("_*.py"))):
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


def without_inputs(model: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
    """A copy of the graph whose inputs are the model's own: its weights are to become constants."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    inputs = [given for given in found.graph.input if given.name not in weights]
    del found.graph.input[:]
    found.graph.input.extend(inputs)
    return found


def written(model: onnx.ModelProto, weights: Weights, file: Path, above: int = LARGEST) -> None:
    """Write a graph without inputs for weights, with those of them that it uses."""
    there = {each.name for each in model.graph.initializer}  # quantising writes its own
    used = {name for node in model.graph.node for name in _read(node)} - there
    weights = {name: tensor for name, tensor in weights.items() if name in used}
    if sum(tensor.nbytes for tensor in weights.values()) > above:
        _write_beside(model, weights, file.with_name(f"{file.name}.data"))
    else:
        model.graph.initializer.extend(_constant(name, tensor) for name, tensor in weights.items())
    file.write_bytes(model.SerializeToString())


def _read(node: onnx.NodeProto) -> set[str]:
    """The names that a node reads, those inside its loops too."""
    inner = (each for attribute in node.attribute if attribute.HasField("g") for each in attribute.g.node)
    return {*node.input}.union(*map(_read, inner))


def _constant(name: str, tensor: Tensor) -> TensorProto:
    """A tensor as protobuf. numpy has no bfloat16, so its bytes are taken as they lie."""
    return TensorProto(name=name, data_type=ELEMENTS[tensor.dtype], dims=tensor.shape, raw_data=_bytes(tensor))


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _write_beside(model: onnx.ModelProto, weights: Weights, data: Path) -> None:
    """Write the numbers into a file of their own, one tensor at a time, to which the graph refers by its name."""
    with data.open("wb") as file:
        for name, tensor in weights.items():
            file.write(b"\0" * (-file.tell() % ALIGNED))
            found = model.graph.initializer.add(name=name, data_type=ELEMENTS[tensor.dtype], dims=tensor.shape)
            found.data_location = TensorProto.EXTERNAL
            place = {"location": data.name, "offset": str(file.tell()), "length": str(tensor.nbytes)}
            for key, value in place.items():
                found.external_data.add(key=key, value=value)
            file.write(_bytes(tensor))


def _float32_alone(**tensors: Tensor) -> tuple[Tensor, ...]:
    """What runs in place of a graph that cannot be quantised, so that bad input is refused all the same."""
    raise NotImplementedError("onnxruntime quantises graphs of float32 alone")


def quantised(model: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
    """The graph whose matrix products by weights are those of 8-bit integers; inputs are rounded call by call.

    The scale of a weight is its column's; that of an input is found in each call, from its largest and least number.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    whole = without_inputs(model, weights)
    whole.graph.initializer.extend(_constant(name, tensor) for name, tensor in weights.items())
    with TemporaryDirectory() as folder:
        file = Path(folder, "quantised.onnx")
        with _unlogged():
            quantize_dynamic(whole, file, ["MatMul"], per_channel=True, weight_type=QuantType.QInt8)
        return onnx.load(file)


def opened(graph: Graph, weights: Weights, device: torch.device) -> tuple[Session, dict[str, float]]:
    """A session in which the weights are constants; the seconds that it took to make it, and the bytes of its files.

    The files are gone once the session has read them.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder, "graph.onnx")
        written(graph.model, weights, file)
        size, started = sum(each.stat().st_size for each in file.parent.iterdir()), perf_counter()
        found = Session(file, device)
        return found, {"export": graph.seconds, "session": perf_counter() - started, "file": float(size)}
