"""Idx files: images and labels as they were written, or a line that says where, what came, and what was due."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from attnsuite.documents.learning.images import images, labels
from attnsuite.model import UsageError

PIXELS = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
IMAGES = bytes.fromhex("00000803 00000002 00000003 00000004") + PIXELS.tobytes()
LABELS = bytes.fromhex("00000801 00000002") + bytes([7, 9])

PACKED = gzip.compress(IMAGES, mtime=0)
"""Without a date: every process must give these bytes the same name."""


def at(folder: Path, data: bytes) -> Path:
    (folder / "file").write_bytes(data)
    return folder / "file"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_images_and_labels_are_read(tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    assert np.array_equal(images(at(tmp_path, pack(IMAGES))), PIXELS)
    assert labels(at(tmp_path, pack(LABELS)), due=2).tolist() == [7, 9]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "file is empty; an idx file with 3 axes is due"),
        (LABELS, "offset 0: 00 00 08 01 came, and 00 00 08 03 is due"),
        (b"PNG of something", "offset 0: 50 4e 47 20 came, and 00 00 08 03 is due"),
        (IMAGES[:2], "offset 2: the file ends, and 3 sizes of 4 bytes are due before 16"),
        (IMAGES[:10], "offset 10: the file ends"),
        (IMAGES[:-1], "offset 16: 23 bytes come, and 2 × 3 × 4 = 24 are due"),
        (IMAGES + b"!", "offset 16: 25 bytes come, and 2 × 3 × 4 = 24 are due"),
        (IMAGES[:4] + bytes(12), "offset 4: sizes of 0 × 0 × 0 came, and 1 or more are due of each"),
        (IMAGES[:8] + bytes(4) + IMAGES[12:16], "offset 4: sizes of 2 × 0 × 4 came"),
        (PACKED[:-9], "file cannot be unpacked"),
        (PACKED[:-8] + b"12345678", "file cannot be unpacked"),
    ],
)
def test_what_is_no_such_file_is_named_with_the_offset(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        images(at(tmp_path, data))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent cannot be read"):
        images(tmp_path / "absent")


def test_labels_are_as_many_as_images(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="file has 2 labels, and 3 are due"):
        labels(at(tmp_path, LABELS), due=3)
