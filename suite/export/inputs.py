"""The config and the weights of an exported model: defaults, files, or random weights."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

from attnsuite.export.exporter import Exporter
from attnsuite.model import UsageError, files
from attnsuite.registry.loading import in_one_line

if TYPE_CHECKING:
    from torch import Tensor

Shapes = Mapping[str, tuple[int, ...]]

# The config


def configured(source: Exporter, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The default config with changes. Raises UsageError for an unknown name or an invalid value."""
    usual = source.exports.usual
    if unknown := [name for name in changes if name not in usual]:
        raise UsageError(f"the config has {unknown[0]!r}, expected one of: {', '.join(usual)}")
    config = {**usual, **changes}
    try:
        source.exports.check(config)
    except ValueError as error:
        raise UsageError(f"the config is invalid for {source.declaration.contract}: {error}") from error
    return config


def read_config(file: Path | None, settings: Iterable[str]) -> dict[str, Any]:
    """The object of a JSON file, changed by settings `name=value`. Raises UsageError for an invalid file or setting."""
    config: dict[str, Any] = {}
    if file is not None:
        try:
            config = json.loads(files.read_text(file))
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file} is not JSON, or too deep: {error}") from error
        if not isinstance(config, dict):
            raise UsageError(f'{file} holds {type(config).__name__}, expected an object, as {{"width": 64}}')
    return config | dict(map(_setting, settings))


def _setting(text: str) -> tuple[str, Any]:
    """Parse `width=64`, `score=dot`, `window=null`: the value is JSON, or a word."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise UsageError(f"--set expects name=value, as --set width=64, got {text!r}")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


# The weights


def refuse_too_many(shapes: Shapes, dtype: str) -> None:
    """Raise UsageError if the weights alone exceed the free memory."""
    import torch

    size = torch.finfo(getattr(torch, dtype)).bits // 8
    total, free = sum(map(math.prod, shapes.values())) * size, psutil.virtual_memory().available
    if total > free:
        gibibytes = f"{total / 2**30:,.1f} GiB of weights in {dtype}"
        raise UsageError(f"this config has {gibibytes}, and {free / 2**30:,.1f} GiB of memory are free")


def drawn_weights(shapes: Shapes, seed: int, dtype: str) -> dict[str, Tensor]:
    """Random weights: matrices of size 1/√rows, norms near 1, vectors of size 0.1."""
    import torch

    random, weights = torch.Generator().manual_seed(seed), {}
    for name, shape in sorted(shapes.items()):
        tensor = torch.randn(shape, generator=random).mul_(shape[0] ** -0.5 if len(shape) == 2 else 0.1)
        weights[name] = tensor.add_("norm" in name and name.endswith("weight")).to(getattr(torch, dtype))
    return weights


def read_weights(file: Path, shapes: Shapes, dtype: str) -> dict[str, Tensor]:
    """The tensors of a file, in this dtype. Raises UsageError for other names or shapes, and for damaged files."""
    import torch

    if file.suffix not in READERS:
        raise UsageError(f"{file} has an unknown format; expected {', '.join(READERS)}")
    try:
        files.check(file)
        tensors = READERS[file.suffix](file)
    except ModuleNotFoundError as error:
        raise UsageError(f"{file} cannot be read without {error.name}: pip install attnsuite[onnx]") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # the libraries of the formats have no common exception
        why = shorten(in_one_line(error), 200, placeholder=" …")
        raise UsageError(f"{file} cannot be read as {file.suffix}: {why}") from error
    if not isinstance(tensors, Mapping):
        raise UsageError(f"{file} holds {type(tensors).__name__}, expected tensors by name")
    for name, shape in shapes.items():
        if problem := _problem(tensors.get(name), shape):
            raise UsageError(f"{file}: {name} {problem}")
    if extra := sorted(map(str, tensors.keys() - shapes.keys())):
        raise UsageError(f"{file} has {extra[0]}, which is not one of the {len(shapes)} weights of this config")
    weights = {name: tensors[name].to(getattr(torch, dtype)) for name in shapes}
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise UsageError(f"{file}: {name} has NaN or infinity in {dtype}, expected finite numbers")
    return weights


def _problem(tensor: Any, shape: tuple[int, ...]) -> str:
    """The reason why a tensor is not the expected weight, or empty."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        return f"is missing, expected shape {shape}"
    if tuple(tensor.shape) != shape:
        return f"has shape {tuple(tensor.shape)}, expected {shape}"
    if not tensor.is_floating_point() or tensor.layout != torch.strided or tensor.is_meta:
        return f"is {tensor.dtype} of layout {tensor.layout} on {tensor.device}, expected dense floating-point numbers"
    return ""


def _read_npz(file: Path) -> dict[str, Any]:
    import numpy as np
    import torch

    with file.open("rb") as data:
        if not zipfile.is_zipfile(data):
            raise ValueError("it is no zip archive, which numpy.savez writes")
    with file.open("rb") as data, np.load(data, allow_pickle=False) as arrays:  # numpy does not close a damaged file
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def _read_safetensors(file: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    tensors: dict[str, Any] = load_file(file)
    return tensors


def _read_pt(file: Path) -> Any:
    import torch

    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # PyTorch's advice, to load it without weights_only, would run code
        message = in_one_line(error).partition(". ")[0]
        raise ValueError(f"expected tensors by name, as torch.save writes them; PyTorch: {message}") from error


READERS: Mapping[str, Callable[[Path], Any]] = {
    ".npz": _read_npz, ".safetensors": _read_safetensors, ".pt": _read_pt
}  # fmt: skip
"""By suffix, a reader that runs no code from the file."""
