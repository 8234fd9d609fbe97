"""Messages as bytes: eight bytes of length, JSON, then the raw storages of the tensors in it. Nothing is pickled."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from math import prod
from typing import Any

import torch
from torch import Tensor

HEADER_LIMIT = 1 << 24
"""The most bytes of JSON that are read: a hundred thousand tensors take about as many, and lists of nothing, which take
most memory, half a gigabyte."""
MOST_TENSORS = 100_000
"""The most tensors in a message: the weights of a model are hundreds, and a question has a few calls."""
STORAGE_LIMIT = 1 << 35
"""The most bytes of tensors that are read in one message: more than any question needs, less than would only fail."""

TURN = 16
"""Bytes of the number that a message is followed by and its reply begins with: drawn anew each time, so that nobody can
reply to what he has not been asked."""

_EXACT = ("bool", "complex64", "complex128", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
DTYPES: Mapping[str, torch.dtype] = {
    name: dtype
    for name, dtype in vars(torch).items()
    if isinstance(dtype, torch.dtype) and str(dtype) == f"torch.{name}" and (dtype.is_floating_point or name in _EXACT)
    if not name.endswith("_x2")
}
"""Every dtype that can cross, by name: not the quantised ones, nor those narrower than a byte, also two in a byte, in
which nothing can be computed."""


class Garbage(Exception):
    """What came is no message."""


class TooLarge(Exception):
    """What came is larger than what may be read; the message says how much that is."""


def as_data(record: Any) -> dict[str, Any]:
    """A dataclass's fields by name, one level deep."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def storage_of(tensor: Tensor) -> Tensor:
    """The whole storage behind a tensor as one flat tensor of its dtype."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return torch.as_strided(tensor.detach(), (count,), (1,), 0)


def buffer(flat: Tensor) -> memoryview:
    """The bytes of a flat tensor, where they lie."""
    array: Any = flat.view(torch.uint8).numpy()
    return memoryview(array)


def pack(message: Any) -> Iterator[memoryview]:
    """The message's bytes in order, without copying tensors. They keep storage, strides and offset, bit by bit."""
    storages: list[memoryview] = []
    tree = _encoded(message, storages)
    header = json.dumps({"sizes": [storage.nbytes for storage in storages], "message": tree}).encode()
    yield memoryview(struct.pack(">Q", len(header)) + header)
    yield from storages


def unpack(read_into: Callable[[memoryview], None], most: int = STORAGE_LIMIT) -> Any:
    """Read one message with a function that fills a buffer. Raises `Garbage` for anything but a message.

    Raises `TooLarge` before any tensor is read, where they have more than `most` bytes together, and for one that would
    have more if each of its numbers had a place of its own.
    """
    length = bytearray(8)
    read_into(memoryview(length))
    size = struct.unpack(">Q", length)[0]
    if size > HEADER_LIMIT:
        raise Garbage(f"a header of {size} bytes")
    header = bytearray(size)
    read_into(memoryview(header))
    try:
        content = json.loads(header)
        sizes, tree = content["sizes"], content["message"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Garbage(f"{type(error).__name__} in the header") from error
    if not (
        isinstance(sizes, list)
        and len(sizes) <= MOST_TENSORS
        and all(_is_natural(size) for size in sizes)
        and sum(sizes) <= STORAGE_LIMIT
    ):
        raise Garbage("sizes that no message has")
    if sum(sizes) > most:
        raise TooLarge(f"{most / (1 << 30):.2g} GiB")
    storages = []
    for size in sizes:
        try:
            storage = torch.empty(size, dtype=torch.uint8)  # takes memory only as it is filled
        except RuntimeError as error:
            raise Garbage(f"a tensor of {size} bytes") from error
        if size:
            read_into(buffer(storage))
        storages.append(storage)
    try:
        return _decoded(tree, storages, most)
    except RecursionError as error:
        raise Garbage("a message nested too deep") from error


def _encoded(value: Any, storages: list[memoryview]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        tensor = value.detach().resolve_conj().resolve_neg()
        if tensor.device.type != "cpu":
            storage = storage_of(tensor).cpu()
            tensor = torch.as_strided(storage, tensor.shape, tensor.stride(), tensor.storage_offset())
        storages.append(buffer(storage_of(tensor)))
        name = str(tensor.dtype).removeprefix("torch.")
        place = [len(storages) - 1, name, list(tensor.shape), list(tensor.stride()), tensor.storage_offset()]
        return {"$tensor": place}
    if isinstance(value, tuple):
        return {"$tuple": [_encoded(item, storages) for item in value]}
    if isinstance(value, list):
        return [_encoded(item, storages) for item in value]
    if isinstance(value, Mapping):
        if any(not isinstance(key, str) or key.startswith("$") for key in value):
            raise TypeError(f"keys that cannot cross: {list(value)}")
        return {key: _encoded(item, storages) for key, item in value.items()}
    raise TypeError(f"a {type(value).__name__} cannot cross")


def _decoded(value: Any, storages: list[Tensor], most: int) -> Any:
    if isinstance(value, list):
        return [_decoded(item, storages, most) for item in value]
    if not isinstance(value, dict):
        return value
    if "$tuple" in value and isinstance(value["$tuple"], list):
        return tuple(_decoded(item, storages, most) for item in value["$tuple"])
    if "$tensor" in value:
        return _tensor(value["$tensor"], storages, most)
    return {key: _decoded(item, storages, most) for key, item in value.items()}


def _tensor(place: Any, storages: list[Tensor], most: int) -> Tensor:
    """The tensor at a place that may be nonsense: nothing outside the storage is ever touched.

    Nor has it more than `most` bytes of numbers: one number that is repeated takes that memory where it is compared.
    """
    try:
        index, name, shape, stride, offset = place
        storage, dtype = storages[index], DTYPES[name]
        naturals = [index, offset, *shape, *stride]
    except (ValueError, TypeError, LookupError) as error:
        raise Garbage("a tensor that is none") from error
    if not all(_is_natural(number) for number in naturals) or len(shape) != len(stride) or len(shape) > 64:
        raise Garbage("a tensor of impossible layout")
    last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if storage.numel() % dtype.itemsize or (0 not in shape and (last + 1) * dtype.itemsize > storage.numel()):
        raise Garbage("a tensor that reaches beyond its storage")
    if prod(shape) * dtype.itemsize > most:
        raise TooLarge(f"{most / (1 << 30):.2g} GiB")
    try:
        return torch.as_strided(storage.view(dtype), shape, stride, offset)
    except (RuntimeError, OverflowError, TypeError) as error:
        raise Garbage("a tensor of impossible layout") from error


def _is_natural(number: Any) -> bool:
    return type(number) is int and 0 <= number < 1 << 62
