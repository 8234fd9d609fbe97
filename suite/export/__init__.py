"""Models as ONNX files. A file is checked, run once and compared with the oracle before it is moved to its place."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

from attnsuite import machine
from attnsuite.export.exporter import Exporter, find_exporter
from attnsuite.export.files import replacing
from attnsuite.export.inputs import configured, drawn_weights, read_weights, refuse_too_many
from attnsuite.export.verify import Verification, verify
from attnsuite.model import DTYPES, UsageError
from attnsuite.model.limits import check_short_seed
from attnsuite.registry.loading import in_one_line

DATA_ABOVE = 2**31 - 2**20
"""Bytes of weights that fit into the graph's file: a protobuf message is smaller than 2 GiB."""
OLDEST = 17
"""The first opset with LayerNormalization, which all models except the recurrent one need."""
LICENCE = "graph: BSD-3-Clause; weights: that of who made them"
"""attnsuite's licence covers the graph; the licence of weights from a file is unknown."""


@dataclass(frozen=True)
class Request:
    """A model to export, and its file. Empty fields have the implementation's defaults."""

    target: str
    file: Path
    opset: int | None = None
    dtype: str = "float32"
    part: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    weights: Path | None = None
    """A file of tensors by their names in the contract; without a file, random weights from `seed`."""
    seed: int = 0
    device: str = ""
    """The device of the verification, cpu or cuda; by default cuda if available."""
    force: bool = False
    """Whether to replace an existing file."""
    data_above: int = DATA_ABOVE
    """Bytes of weights above which they get a file of their own."""


@dataclass(frozen=True)
class ExportedModel:
    """A written graph, and the errors of its output."""

    name: str
    dtype: str
    """int8 for a quantised graph, whose other tensors are float32."""
    opset: int
    part: str
    nodes: int
    bytes: int
    verification: Verification


def export(request: Request) -> ExportedModel:
    """Write the file. Raises UsageError for a model that cannot be written; an existing file then stays unchanged."""
    _check(request)
    with replacing(request.file, request.force) as place:
        source = find_exporter(request.target)
        if source.exports.quantised and request.dtype != "float32":
            raise UsageError(f"{source.name} supports float32 only, got {request.dtype}")
        part, opset = _part(source, request.part), _opset(source, request.opset)
        config = configured(source, request.config)
        weights, origin = _weights(source, request, config)
        model = _graph(source, config, request.dtype, opset, part)
        name = (
            source.name if opset == source.exports.opset else source.name.removesuffix(f".opset{source.exports.opset}")
        )
        dtype = "int8" if source.exports.quantised else request.dtype
        labels = {"implementation": name, "dtype": dtype, "opset": str(opset), "weights": origin}
        _label(model, source, config, part, labels)
        source.exports.write(model, weights, place, request.data_above)
        verification = verify(source, place, part, config, weights, request.device)
        size, nodes = sum(file.stat().st_size for file in place.parent.iterdir()), _nodes(place)
    return ExportedModel(name, dtype, opset, part, nodes, size, verification)


def _nodes(file: Path) -> int:
    """The number of nodes of a written graph."""
    import onnx

    return len(onnx.load(file, load_external_data=False).graph.node)


def _check(request: Request) -> None:
    if request.dtype not in DTYPES:
        raise UsageError(f"unknown dtype {request.dtype!r}; there are: {', '.join(DTYPES)}")
    if request.device.partition(":")[0] not in ("", "cpu", "cuda"):
        raise UsageError(f"unknown device {request.device!r}; there are: cpu, cuda, cuda:N")
    check_short_seed(request.seed)


def _opset(source: Exporter, wanted: int | None) -> int:
    import onnx

    newest = onnx.defs.onnx_opset_version()
    if wanted is not None and not OLDEST <= wanted <= newest:
        raise UsageError(f"opset {wanted} is out of range: valid opsets are {OLDEST} to {newest}")
    return source.exports.opset if wanted is None else wanted


def _part(source: Exporter, wanted: str) -> str:
    parts = source.exports.parts
    if wanted and wanted not in parts:
        raise UsageError(f"{source.name} has no part {wanted!r}; there are: {', '.join(parts)}")
    return wanted or next(iter(parts))


def _weights(source: Exporter, request: Request, config: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The weights in the dtype, and their origin."""
    shapes = source.exports.shapes(config)
    refuse_too_many(shapes, request.dtype)
    if request.weights is None:
        return drawn_weights(shapes, request.seed, request.dtype), f"drawn, seed {request.seed}"
    return read_weights(request.weights, shapes, request.dtype), f"from {request.weights.name}"


def _graph(source: Exporter, config: Mapping[str, Any], dtype: str, opset: int, part: str) -> Any:
    """The graph without weights. Raises UsageError for an opset that cannot express it."""
    import torch

    try:
        return source.exports.graph(config, getattr(torch, dtype), opset, part).model
    except Exception as error:  # PyTorch's exporter has no common exception
        what = f"{source.declaration.contract}, part {part}, cannot be written in opset {opset}"
        hint = f"; in opset {source.exports.opset} it can" if opset != source.exports.opset else ""
        why = shorten(in_one_line(error).removeprefix("ValueError: "), 300, placeholder=" …")
        raise UsageError(f"{what}: {why}{hint}") from error


def _label(model: Any, source: Exporter, config: Mapping[str, Any], part: str, labels: Mapping[str, str]) -> None:
    """Add the producer, its version and the metadata to a graph."""
    versions, contract = machine.versions(), source.declaration.contract
    model.producer_name, model.producer_version = "attnsuite", versions.get("attnsuite", "")
    model.doc_string, model.graph.name = f"{contract}, {part}: {source.exports.parts[part]}.", contract
    makers = (f"{name} {versions[name]}" for name in ("torch", "onnx", "onnxscript") if name in versions)
    entries = {"contract": contract, "part": part, "config": json.dumps(dict(config)), **labels}
    for key, value in {**entries, "licence": LICENCE, "made with": ", ".join(makers)}.items():
        model.metadata_props.add(key=key, value=value)
