"""The weights of a model that is exported: drawn from a seed, or read from a file of tensors by name."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

from attnsuite.model import UsageError, regular
from attnsuite.registry.loading import in_one_line

if TYPE_CHECKING:
    from torch import Tensor

Shapes = Mapping[str, tuple[int, ...]]


def refuse_too_many(due: Shapes, dtype: str) -> None:
    """Raise UsageError where the weights alone take more memory than is free."""
    import torch

    each = torch.finfo(getattr(torch, dtype)).bits // 8
    total, free = sum(map(math.prod, due.values())) * each, psutil.virtual_memory().available
    if total > free:
        gibibytes = f"{total / 2**30:,.1f} GiB of weights in {dtype}"
        raise UsageError(f"this config has {gibibytes}, and {free / 2**30:,.1f} GiB of memory are free")


def drawn(due: Shapes, seed: int, dtype: str) -> dict[str, Tensor]:
    """Weights as they are before training: of size 1/√rows, norms of one and vectors of 0.1."""
    import torch

    random, found = torch.Generator().manual_seed(seed), {}
    for name, shape in sorted(due.items()):  # whatever order they are named in
        size = shape[0] ** -0.5 if len(shape) == 2 else 0.1
        tensor = torch.randn(shape, generator=random).mul_(size)
        found[name] = tensor.add_("norm" in name and name.endswith("weight")).to(getattr(torch, dtype))
    return found


def read(file: Path, due: Shapes, dtype: str) -> dict[str, Tensor]:
    """The tensors of a file, in this dtype. UsageError unless they are those that are due, all and no others."""
    import torch

    if file.suffix not in READERS:
        raise UsageError(f"{file} is of no known format; weights are read from {', '.join(READERS)}")
    try:
        regular.check(file)
        found = READERS[file.suffix](file)
    except ModuleNotFoundError as error:
        raise UsageError(f"{file} cannot be read without {error.name}: pip install attnsuite[onnx]") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # of a damaged file each format's library raises what it likes
        raise UsageError(
            f"{file} cannot be read as {file.suffix}: {shorten(in_one_line(error), 200, placeholder=' …')}"
        ) from error
    _check(file, found, due)
    weights = {name: found[name].to(getattr(torch, dtype)) for name in due}
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise UsageError(f"{file}: {name} has NaN or infinity in {dtype}, due are finite numbers")
    return weights


def _check(file: Path, found: Any, due: Shapes) -> None:
    """Raise UsageError where the tensors are not those that are due."""
    import torch

    if not isinstance(found, Mapping):
        raise UsageError(f"{file} holds {type(found).__name__}, due are tensors by name")
    for name, shape in due.items():
        if not isinstance(found.get(name), torch.Tensor):
            raise UsageError(f"{file} lacks {name}, due with shape {shape}")
        if tuple(found[name].shape) != shape:
            raise UsageError(f"{file}: {name} has shape {tuple(found[name].shape)}, due is {shape}")
        if not found[name].is_floating_point():
            raise UsageError(f"{file}: {name} is {found[name].dtype}, due are floating-point numbers")
        if found[name].layout != torch.strided or found[name].is_meta:
            what = "meta tensor, without numbers" if found[name].is_meta else f"{found[name].layout} tensor"
            raise UsageError(f"{file}: {name} is a {what}, due is a dense one")
    if extra := sorted(map(str, found.keys() - due.keys())):
        raise UsageError(f"{file} has {extra[0]}, which is not one of the {len(due)} weights of this config")


def _of_numpy(file: Path) -> dict[str, Any]:
    import numpy as np
    import torch

    with file.open("rb") as data:
        if not zipfile.is_zipfile(data):
            raise ValueError("it is no zip archive, which numpy.savez writes")
    with file.open("rb") as data, np.load(data, allow_pickle=False) as arrays:  # numpy closes no damaged file
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def _of_safetensors(file: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    found: dict[str, Any] = load_file(file)
    return found


def _of_torch(file: Path) -> Any:
    import torch

    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # PyTorch's own advice, to load it all the same, is none: that would run code
        says = in_one_line(error).partition(". ")[0]
        raise ValueError(f"due is a file of tensors by name, as torch.save writes it; PyTorch says {says}") from error


READERS: Mapping[str, Callable[[Path], Any]] = {".npz": _of_numpy, ".safetensors": _of_safetensors, ".pt": _of_torch}
"""How each format is read, by the ending of the file's name. None of them runs code from the file."""
