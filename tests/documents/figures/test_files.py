"""The files of figures: whole or not at all, and never over what was not drawn here."""

import os
import struct
import zlib

import pytest

from attnsuite.documents.figures import targets
from attnsuite.documents.figures.picture import Axis, HeatMap, HeatMaps
from attnsuite.model import UsageError

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

PICTURE = HeatMaps("t", "s", (HeatMap(((0.25, 0.75),)),), 1, Axis("key", ("a", "b")), Axis("query", ("c",)))
OTHER = HeatMaps("t", "s", (HeatMap(((0.5, 0.5),)),), 1, Axis("key", ("a", "b")), Axis("query", ("c",)))


def written(folder, picture=PICTURE, **options):
    (target,) = targets(folder, ["one"], **options)
    return target.write(picture)


def test_a_figure_is_written_over_itself_and_an_equal_one_is_left_alone(tmp_path):
    svg, png = written(tmp_path / "new" / "folder")
    before = (svg.read_bytes(), png.read_bytes())
    os.utime(svg, (1, 1))

    written(svg.parent)
    assert svg.stat().st_mtime == 1

    written(svg.parent, OTHER)
    assert svg.read_bytes() != before[0]
    assert png.read_bytes() != before[1]
    assert sorted(path.name for path in svg.parent.iterdir()) == ["one.png", "one.svg"]


@pytest.mark.parametrize("name", ["one.svg", "one.png"])
@pytest.mark.parametrize("data", [b"", b"mine", b"<svg>mine</svg>", b"\x89PNG\r\n\x1a\n" + bytes(99)])
def test_a_foreign_file_stays_and_nothing_else_is_written(name, data, tmp_path):
    (tmp_path / name).write_bytes(data)

    with pytest.raises(UsageError, match=rf"{name} was not drawn by attnsuite: move it away, or .* --overwrite"):
        targets(tmp_path, ["another", "one"])

    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == data


@pytest.mark.parametrize("place", [0, 1], ids=["svg", "png"])
@pytest.mark.parametrize(
    "change",
    [lambda data: data[:-40], lambda data: data + b" ", lambda data: data.replace(data[-60:-50], b"0123456789", 1)],
    ids=["cut off", "added to", "changed"],
)
def test_a_figure_that_was_changed_since_stays(place, change, tmp_path):
    file = written(tmp_path)[place]
    file.write_bytes(changed := change(file.read_bytes()))

    with pytest.raises(UsageError, match="was changed or damaged since attnsuite drew it"):
        targets(tmp_path, ["one"])

    assert file.read_bytes() == changed


def test_who_asks_for_it_gets_foreign_files_replaced_but_no_folder(tmp_path):
    (tmp_path / "one.svg").write_text("mine")
    (tmp_path / "two.png").mkdir()

    assert b"attnsuite" in written(tmp_path, overwrite=True)[0].read_bytes()
    with pytest.raises(UsageError, match=r"two\.png is a folder: move it away$"):
        targets(tmp_path, ["two"], overwrite=True)


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be made"):
        targets(tmp_path / "file", ["one"])


def test_a_file_that_cannot_be_written_keeps_the_former_one(tmp_path, monkeypatch):
    svg, _ = written(tmp_path)
    before = svg.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        written(tmp_path, OTHER)

    assert svg.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.png", "one.svg"]


def test_a_marked_png_is_a_sound_png(tmp_path):
    """Every chunk's length and checksum, the mark's among them."""
    data = written(tmp_path)[1].read_bytes()

    kinds, place = [], 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        chunk = data[place + 4 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length]) == (zlib.crc32(chunk),)
        kinds.append(chunk[:4])
        place += 12 + length
    assert kinds[:2] == [b"IHDR", b"tEXt"]
    assert kinds[-1] == b"IEND"
