"""Each figure is really drawn: SVG with a mark for each number, and the same picture as PNG."""

import re
import struct
import zlib
from itertools import groupby
from xml.etree import ElementTree

import pytest
from translators import untrained

from attnsuite.documents.figures import FIGURES, targets
from attnsuite.documents.figures.picture import Axis, HeatMap, HeatMaps, Way
from attnsuite.documents.figures.translation import heads, translate

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
from attnsuite.documents.figures import render

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('1')</script>&amp;]]>\x1b[31m\x00\udc80\u202e"


def marks(root, kind):
    """The groups of marks of a kind, each with its marks."""
    groups = [node for node in root.iter(f"{SVG}g") if node.get("class", "").startswith(f"mark-{kind} role-mark")]
    return [list(group) for group in groups]


def texts(root):
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def test_every_figure_has_a_title_a_source_and_a_file_of_its_name():
    assert len(FIGURES) >= 15
    for name, figure in FIGURES.items():
        assert figure.title, name
        assert re.match(r"doc-00\d, sections? [\d.]+", figure.source), name


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if not figure.trains])
def test_a_figure_is_drawn_with_a_mark_for_each_number(name, tmp_path):
    has_its_marks(name, FIGURES[name].picture(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [".attention", ".self_attention", ".cross_attention"])
def test_attention_by_layer_and_head_is_drawn_with_a_mark_for_each_number(kind, tmp_path):
    has_its_marks("heads", heads("t", translate("transformer", untrained(), "I'm home."), kind), tmp_path)


def has_its_marks(name, picture, tmp_path):
    (target,) = targets(tmp_path, [name])

    svg, png = target.write(picture)

    root = ElementTree.parse(svg).getroot()
    assert picture.title in texts(root)
    assert [root.find(f"{SVG}{part}").text for part in ("title", "desc")] == [picture.title, picture.shown]
    assert root.get("role") == "img"
    assert {f"{name}-title", f"{name}-desc"} == set(root.get("aria-labelledby").split())
    (has_its_cells if isinstance(picture, HeatMaps) else has_its_points)(root, picture)
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(set(pixels(png.read_bytes()))) > 10
    assert (width, height) == tuple(render.ZOOM * float(root.get(side)) for side in ("width", "height"))


def pixels(png):
    """The bytes of a PNG's lines, as they are filtered: few values where nothing is drawn."""
    data, place = b"", 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            data += png[place + 8 : place + 8 + length]
        place += 12 + length
    return zlib.decompress(data)


def has_its_cells(root, picture):
    """A rectangle for each run of equal numbers, in colours as different as these, and numbers where they are due."""
    groups = marks(root, "rect")
    assert len(groups) == len(picture.maps)
    colours = {}
    for group, one in zip(groups, picture.maps, strict=True):
        values = [value for row in one.rows for value, _ in groupby(row)]
        assert len(group) == len(values)
        for mark, value in zip(group, values, strict=True):
            assert colours.setdefault(value, mark.get("fill")) == mark.get("fill")
    if picture.written:
        cells = sum(len(row) for one in picture.maps for row in one.rows)
        written = [text for group in marks(root, "text") for text in group if re.fullmatch(r"-?\d?\.?\d+", text.text)]
        assert len(written) == cells
    for axis in (picture.across, picture.down):
        assert axis.title in texts(root)
        assert set(filter(None, axis.labels)) <= set(texts(root))


def has_its_points(root, picture):
    """A vertex or a symbol for each point."""
    lines = [mark.get("d").count("L") + 1 for group in marks(root, "line") for mark in group]
    symbols = [len(group) for group in marks(root, "symbol")]
    series = [each for panel in picture.panels for each in panel.series]
    assert sorted(lines) == sorted(len(each.points) for each in series if each.way is not Way.POINTS)
    assert symbols == [len(each.points) for each in series if each.way is Way.POINTS]
    for panel in picture.panels:
        assert not panel.title or panel.title in texts(root)
        assert (panel.across or picture.across) in texts(root)
    assert picture.up in texts(root)


@pytest.mark.parametrize("lost", ["mark-rect", "mark-text"])
def test_a_cell_without_its_mark_or_its_number_is_noticed(lost):
    picture = FIGURES["masked_softmax"].picture()
    root = ElementTree.fromstring(render.svg("t", picture))
    group = next(node for node in root.iter(f"{SVG}g") if node.get("class", "").startswith(f"{lost} role-mark"))
    group.remove(group[0])

    with pytest.raises(AssertionError):
        has_its_cells(root, picture)


def test_a_curve_without_one_of_its_points_is_noticed():
    picture = FIGURES["position_curves"].picture()
    root = ElementTree.fromstring(render.svg("t", picture))
    line = marks(root, "line")[0][0]
    line.set("d", line.get("d").rpartition("L")[0])

    with pytest.raises(AssertionError):
        has_its_points(root, picture)


def test_a_curve_goes_through_its_points():
    """Between 0 and 1, a panel of 200 pixels: heights are read back from the file to a hundredth of a pixel."""
    picture = FIGURES["kernels"].picture()

    root = ElementTree.fromstring(render.svg("kernels", picture))

    path = marks(root, "line")[0][0].get("d")
    heights = [1 - float(y) / 200 for y in re.findall(r"[ML][\d.e-]+,([\d.e-]+)", path)]
    assert heights == pytest.approx([y for _, y in picture.panels[0].series[0].points], abs=1e-4)


def test_a_larger_weight_is_darker():
    row = tuple(place / 10 for place in range(11))
    picture = HeatMaps("t", "s", (HeatMap((row,)),), 1, Axis("key", ("",) * 11), Axis("query", ("",)))

    root = ElementTree.fromstring(render.svg("t", picture))

    light = [sum(map(int, re.findall(r"\d+", mark.get("fill")))) for mark in marks(root, "rect")[0]]
    assert light == sorted(light, reverse=True)
    assert len(set(light)) == 11


def test_a_cell_says_its_number_to_two_decimals():
    row = (0.0, 0.001, 0.354, 1.0, 2.0, 10.05, -0.5)
    picture = HeatMaps("t", "s", (HeatMap((row,)),), 1, Axis("key", ("",) * 7), Axis("query", ("",)))

    root = ElementTree.fromstring(render.svg("t", picture))

    assert [mark.text for mark in marks(root, "text")[0]] == ["0", ".00", ".35", "1", "2", "10.05", "-.50"]


def test_a_grid_shares_its_axes_and_its_colour_bar():
    one = HeatMap(((0.5, 0.25), (0.0, 1.0)))
    picture = HeatMaps("t", "s", (one,) * 6, 3, Axis("key", ("a", "b")), Axis("query", ("c", "d")), written=False)

    said = texts(ElementTree.fromstring(render.svg("t", picture)))

    assert [said.count(word) for word in ("key", "a", "query", "c", "weight")] == [3, 3, 2, 2, 1]


def test_the_same_picture_gives_the_same_text():
    picture = FIGURES["masked_softmax"].picture()

    assert render.svg("a", picture) == render.svg("a", picture)


def test_whatever_a_sentence_says_is_text():
    root = ElementTree.fromstring(
        render.svg("weights", FIGURES["weights"].picture(sentence=f"{HOSTILE} '];alert(1);[' \\"))
    )

    tags = {node.tag.removeprefix(SVG) for node in root.iter()}
    assert tags <= {
        "svg",
        "g",
        "path",
        "rect",
        "line",
        "text",
        "title",
        "desc",
        "defs",
        "clipPath",
        "linearGradient",
        "stop",
    }
    assert "'];alert(1);['" in texts(root)
    assert "\\" in texts(root)


def test_a_description_says_where_the_largest_weight_is():
    picture = HeatMaps(
        "t", "s", (HeatMap(((0.25, 0.75), (0.5, 0.5)), "one"),), 1, Axis("key", ("a", "b")), Axis("query", ("c", "d"))
    )

    assert picture.shown == "s. one: 2 rows (query) by 2 columns (key), the largest weight is 0.75 in row 1, column 2."
