"""Images and labels from idx files, the format of Fashion-MNIST and MNIST: as they come, or packed by gzip."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnsuite.model import UsageError
from attnsuite.model.regular import read_bytes

GZIP = b"\x1f\x8b"
"""What a file packed by gzip begins with."""
UNSIGNED_BYTES = 0x08
"""The third byte of an idx file whose numbers are bytes: the only kind that these data sets have."""


def images(path: Path) -> NDArray[np.uint8]:
    """The images of a file, n h w. Raises UsageError, with the offset, for what is no such file."""
    return _array(path, 3)


def labels(path: Path, due: int | None = None) -> NDArray[np.uint8]:
    """The labels of a file, n. Raises UsageError for what is no such file, and unless there are as many as are due."""
    found = _array(path, 1)
    if due is not None and len(found) != due:
        raise UsageError(f"{path} has {len(found)} labels, and {due} are due, one for each image")
    return found


def _array(path: Path, axes: int) -> NDArray[np.uint8]:
    data = _unpacked(path)
    begin = 4 + 4 * axes
    if not data:
        raise UsageError(f"{path} is empty; an idx file with {axes} axes is due")
    magic = bytes((0, 0, UNSIGNED_BYTES, axes))
    if data[:4] != magic[: len(data)]:
        raise UsageError(f"{path}, offset 0: {data[:4].hex(' ')} came, and {magic.hex(' ')} is due")
    if len(data) < begin:
        raise UsageError(
            f"{path}, offset {len(data)}: the file ends, and {axes} sizes of 4 bytes are due before {begin}"
        )
    shape = tuple(int.from_bytes(data[at : at + 4], "big") for at in range(4, begin, 4))
    if not all(shape):
        raise UsageError(
            f"{path}, offset 4: sizes of {' × '.join(map(str, shape))} came, and 1 or more are due of each"
        )
    due, there = math.prod(shape), len(data) - begin
    if there != due:
        sizes = " × ".join(map(str, shape))
        raise UsageError(f"{path}, offset {begin}: {there} bytes come, and {sizes} = {due} are due")
    return np.frombuffer(data, np.uint8, offset=begin).reshape(shape).copy()


def _unpacked(path: Path) -> bytes:
    try:
        data = read_bytes(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); an idx file is due") from None
    if not data.startswith(GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path} cannot be unpacked ({error}); it has {len(data)} bytes") from None
