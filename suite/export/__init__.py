"""A model written as an ONNX file: made, checked, run once and held against its contract before the file is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

from attnsuite.export.config import configured
from attnsuite.export.exporter import Exporter, exporter
from attnsuite.export.metadata import labelled
from attnsuite.export.verifying import Verified, held
from attnsuite.export.weights import drawn, read, refuse_too_many
from attnsuite.export.writing import replacing
from attnsuite.model import DTYPES, UsageError
from attnsuite.model.options import check_short_seed
from attnsuite.registry.loading import in_one_line

DATA_ABOVE = 2**31 - 2**20
"""Bytes of weights above which they lie in a file beside the graph's: protobuf writes no message of 2 GiB."""

OLDEST = 17
"""The first opset with LayerNormalization, which all models but the recurrent one need."""


@dataclass(frozen=True)
class Request:
    """What is to be exported, and where to. What is not said is as the implementation has it."""

    target: str
    file: Path
    opset: int | None = None
    dtype: str = "float32"
    part: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    weights: Path | None = None
    """A file of tensors by their names in the contract; without one they are drawn from `seed`."""
    seed: int = 0
    device: str = ""
    """Where the graph is run before it is written: cpu or cuda. Empty: where there is CUDA, there."""
    force: bool = False
    """Whether a file that exists is replaced."""
    data_above: int = DATA_ABOVE


@dataclass(frozen=True)
class Written:
    """What was written, and what was found when it ran."""

    files: tuple[Path, ...]
    name: str
    opset: int
    part: str
    nodes: int
    bytes: int
    verified: Verified


def export(request: Request) -> Written:
    """Write the file, or raise UsageError with the reason why not; a file that was there before is then unharmed."""
    if request.dtype not in DTYPES:
        raise UsageError(f"unknown dtype {request.dtype!r}; there are: {', '.join(DTYPES)}")
    if request.device.partition(":")[0] not in ("", "cpu", "cuda"):
        raise UsageError(f"unknown device {request.device!r}; there are: cpu, cuda, cuda:N")
    check_short_seed(request.seed)
    if request.data_above < 0:
        raise UsageError(f"--data-above should be 0 bytes or more, not {request.data_above}")
    with replacing(request.file, request.force) as place:
        found = exporter(request.target)
        if found.exports.quantised and request.dtype != "float32":
            raise UsageError(f"{found.declaration.full_name} is made of float32 alone, not of {request.dtype}")
        part, opset = _part(found, request.part), _opset(found, request.opset)
        name = _named(found, opset)
        config = configured(found, request.config)
        weights, origin = _weights(found, request, config)
        model = _graph(found, config, request.dtype, opset, part)
        made = {"implementation": name, "dtype": request.dtype, "opset": str(opset), "weights": origin}
        labelled(model, found, config, part, made)
        found.exports.write(model, weights, place, request.data_above)
        verified = held(found, place, part, config, weights, request.device)
        nodes, size = len(model.graph.node), sum(each.stat().st_size for each in place.parent.iterdir())
    return Written((request.file,), name, opset, part, nodes, size, verified)


def _opset(found: Exporter, wanted: int | None) -> int:
    """The opset to write. UsageError, before the export, for one in which no model can be written."""
    import onnx

    newest = onnx.defs.onnx_opset_version()
    if wanted is not None and not OLDEST <= wanted <= newest:
        raise UsageError(
            f"no model is written in opset {wanted}: models need {OLDEST}, and onnx knows {newest} at most"
        )
    return found.exports.opset if wanted is None else wanted


def _named(found: Exporter, opset: int) -> str:
    """The implementation's full name, without a variant that is named after another opset than is written."""
    name, own = found.declaration.full_name, found.exports.opset
    return name if opset == own else name.removesuffix(f".opset{own}")


def _part(found: Exporter, wanted: str) -> str:
    parts = found.exports.parts
    if wanted and wanted not in parts:
        raise UsageError(f"{found.declaration.full_name} has no part {wanted!r}; there are: {', '.join(parts)}")
    return wanted or next(iter(parts))


def _weights(found: Exporter, request: Request, config: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The weights in the dtype, and where they are from."""
    due = found.exports.shapes(config)
    refuse_too_many(due, request.dtype)
    if request.weights is None:
        return drawn(due, request.seed, request.dtype), f"drawn, seed {request.seed}"
    return read(request.weights, due, request.dtype), f"from {request.weights.name}"


def _graph(found: Exporter, config: Mapping[str, Any], dtype: str, opset: int, part: str) -> Any:
    """The graph without weights. UsageError where the opset cannot express it."""
    import torch

    try:
        return found.exports.graph(config, getattr(torch, dtype), opset, part).model
    except Exception as error:  # PyTorch's exporter raises whatever its passes do
        what = f"{found.declaration.contract}, part {part}, cannot be written in opset {opset}"
        other = f"; in opset {found.exports.opset} it can" if opset != found.exports.opset else ""
        why = shorten(in_one_line(error).removeprefix("ValueError: "), 300, placeholder=" …")
        raise UsageError(f"{what}: {why}{other}") from error
