"""Figures: the documents' numbers, drawn as SVG with a mark for each number, and as PNG."""

import json
import math
import os
import re
import struct
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from translators import FRENCH, untrained

from attnsuite.contracts.sources.documents import examples
from attnsuite.contracts.steps.kernel_pooling import DATA
from attnsuite.documents import figures
from attnsuite.documents.figures import FIGURES, computing, heads
from attnsuite.documents.figures.computing import translate
from attnsuite.documents.figures.pictures import Axis, HeatMap, HeatMaps, LineStyle
from attnsuite.model import UsageError

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
from attnsuite.documents.figures import drawing
from attnsuite.documents.figures.drawing import targets

SVG = "{http://www.w3.org/2000/svg}"
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "documents.md").read_text(encoding="utf-8")
PRINTED = json.loads(DATA.read_text())["kernels"]
UNTRAINED = [name for name, figure in FIGURES.items() if not figure.trains]


def small(*values, title="t"):
    axes = Axis("key", tuple("abcdefghijk"[: len(values)])), Axis("query", ("q",))
    return HeatMaps("s", (HeatMap((values,)),), *axes, title=title)


# Numbers


def expected(example, quantity):
    return torch.tensor(examples()[example].quantities[quantity], dtype=torch.float64)


def shown(name, place=0):
    return torch.tensor(FIGURES[name].picture().maps[place].rows, dtype=torch.float64)


def assert_printed(actual, printed, relative=False):
    """Equal to the fourth decimal, or to the fifth significant digit."""
    printed = torch.tensor(printed, dtype=torch.float64)
    tolerance = 1.1e-4 * printed.abs() + 1e-12 if relative else 1.1e-4
    assert torch.all((actual - printed).abs() <= tolerance), (actual - printed).abs().max()


@pytest.mark.parametrize(
    ("figure", "place", "example", "quantity"),
    [
        ("masked_softmax", 0, "doc-004/11.3.2.1-literal-lens-1d", 0),
        ("masked_softmax", 3, "doc-004/11.3.2.1-literal-lens-2d", 1),
        ("causal_mask", 0, "doc-003/3.4.2-self-attention-v2", "weights"),
        ("causal_mask", 1, "doc-003/3.5.1-mask-after-softmax", "masked_weights"),
        ("causal_mask", 2, "doc-003/3.5.1-mask-after-softmax", "renormalised"),
        ("weights", 0, "doc-003/3.4.2-self-attention-v2", "weights"),
    ],
)
def test_a_map_shows_the_document_s_weights(figure, place, example, quantity):
    if isinstance(quantity, int):
        torch.testing.assert_close(shown(figure, place), expected(example, "weights")[quantity], rtol=6e-5, atol=0)
    else:
        assert_printed(shown(figure, place), examples()[example].expected[quantity])


@pytest.mark.parametrize("kernel", figures.KERNELS)
def test_the_kernels_are_those_of_the_document(kernel):
    example = "doc-004/11.2.1-kernel-curves"

    assert figures.distances().tolist() == examples()[example].inputs["u"]
    torch.testing.assert_close(figures.heights(kernel), expected(example, kernel), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PRINTED)
def test_regressions_and_the_corners_of_their_weights_are_printed_in_the_document(name):
    printed, (kernel, _, width) = PRINTED[name], name.partition("_")
    data = json.loads(DATA.read_text())
    corners = figures.kernel_matrix(kernel, float(width or 1))[data["corner_rows"]][:, data["corner_cols"]]

    assert_printed(figures.estimate(kernel, float(width or 1)), printed["y_hat"])
    assert_printed(corners, printed["attention_weights"], printed["attention_weights_format"] == "sci4")


def test_a_map_of_weights_shows_each_to_a_step_of_its_colours():
    for place, choice in enumerate(figures.BY_WIDTH):
        error = (shown("width_weights", place) - figures.kernel_matrix(*choice)).abs().max()
        assert error <= 0.5 / figures.SHADES + 5e-6


def test_a_regression_is_drawn_with_the_true_function_and_the_training_points():
    estimate, true_function, points = FIGURES["kernel_regressions"].picture().panels[0].series

    assert_printed(torch.tensor([y for _, y in estimate.points]), PRINTED["gaussian"]["y_hat"])
    assert true_function.points[10] == (1.0, pytest.approx(2 * math.sin(1) + 1, abs=5e-5))
    assert (len(points.points), points.points[0]) == (40, (0.5508, 0.69766))


def test_positions_are_encoded_as_in_the_document():
    rows = examples()["doc-004/11.6.3-full-rows"].inputs["positions"]
    series = FIGURES["position_curves"].picture().panels[0].series

    torch.testing.assert_close(
        figures.encoding()[rows], expected("doc-004/11.6.3-full-rows", "values"), rtol=0, atol=1e-11
    )
    for column, printed in zip(series, expected("doc-004/11.6.3-columns-6-9", "values").T, strict=True):
        torch.testing.assert_close(torch.tensor([y for _, y in column.points]).double(), printed, rtol=1e-5, atol=1e-5)


def test_dropout_doubles_kept_weights_and_the_document_s_draw_is_next_to_ours():
    before, ours, printed = (shown("dropout_mask", place) for place in range(3))
    keep = torch.tensor(examples()["doc-003/3.5.2-dropout-weights"].inputs["keep"])
    kept = ours != 0

    torch.testing.assert_close(ours[kept], 2 * before[kept], rtol=1e-4, atol=0)
    assert 0 < kept.sum() < (before > 0).sum()
    assert_printed(2 * before * keep, printed.tolist())


def test_random_figures_leave_torch_s_generator_unchanged():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)

    FIGURES["dropout_mask"].picture()
    computing.flow(3, seed=1, keep=0.5)

    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("place", "example"), [(0, "11.3.3-dot-product-shape"), (1, "11.3.4-additive-shape")])
def test_scores_give_weights_to_the_document_s_keys(place, example):
    actual = shown("scoring", place)

    assert torch.equal((actual > 0).long(), expected(f"doc-004/{example}", "nonzero")[:, 0].long())
    torch.testing.assert_close(actual.sum(1), torch.ones(2).double(), rtol=1e-4, atol=0)


def test_gradients_flow_to_all_earlier_steps_to_the_last_few_or_to_random_ones():
    full, truncated, randomised = (
        computing.flow(12, **scheme) for scheme in ({}, {"truncate": 2}, {"keep": 0.5, "seed": 3})
    )
    passed = [float(randomised[step, step - 1]) for step in range(1, 12)]

    assert torch.equal(full, torch.ones(12, 12).double().tril())
    assert torch.equal(truncated, full - full.tril(-2))
    assert set(passed) == {0.0, 2.0}
    assert all(randomised[loss, s] == math.prod(passed[s:loss]) for loss in range(12) for s in range(loss + 1))


def test_errors_of_gradients_end_at_zero_a_mean_is_closer_and_the_page_quotes_them():
    truncated, (single, mean) = figures.truncated_errors(), figures.randomised_errors()
    (quoted,) = re.findall(
        r"after 4 steps, .*? off by (\d+) %.*? off by (\d+) % in .*? mean of 200 of them by (\d+) %",
        " ".join(PAGE.split()),
    )
    at = figures.PROBABILITIES.index(0.8)

    assert truncated[0] > 0.1 > 1e-12 > truncated[-1]
    assert (single[-1], mean[-1]) == (0, 0)
    assert all(many < one / 5 for one, many in zip(single[:-1], mean[:-1], strict=True))
    assert list(map(int, quoted)) == pytest.approx([100 * e for e in (truncated[3], single[at], mean[at])], abs=0.6)


@pytest.mark.parametrize("name", ["chunked", "loops", "einsum_numpy", "torch_sdpa.math"])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}])
def test_the_weights_of_an_attention_do_not_depend_on_the_width_of_its_values(name, options):
    query, key = torch.randn(2, 1, 3, 7, 4, generator=torch.Generator().manual_seed(0))
    allowed = torch.ones(7, 7).tril() if options else torch.ones(7, 7)

    actual = computing.weights_of(computing.function(f"attention/{name}"), query, key, **options)

    scores = (query @ key.mT / 2).masked_fill(allowed == 0, -math.inf)
    torch.testing.assert_close(actual, scores.softmax(-1), rtol=1e-5, atol=1e-6)


def test_vectors_of_words_depend_on_the_word():
    draw = FIGURES["weights"].picture
    first, again = (draw(sentence="a cat sees a cat") for _ in range(2))
    rows = first.maps[0].rows

    assert first == again
    assert rows[0] == rows[3]
    assert [row[1] for row in rows] == [row[4] for row in rows]


# Translations, by untrained models: shapes, masks and sums of rows


def test_every_layer_and_head_has_weights_without_padding_and_later_words():
    of = translate("transformer", untrained(), "I'm home.")
    length = len(of.target)

    assert (of.source, of.target[0]) == (("i'm", "home", ".", "<eos>"), "<bos>")
    assert set(of.target[1:]) <= set(FRENCH.words)
    assert {name: tuple(weights.shape) for name, weights in of.weights.items()} == {
        **{f"encoder.{layer}.attention": (4, 4, 4) for layer in range(2)},
        **{f"decoder.{layer}.self_attention": (4, length, length) for layer in range(3)},
        **{f"decoder.{layer}.cross_attention": (4, length, 4) for layer in range(3)},
    }
    for name, weights in of.weights.items():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), msg=name)
        assert not name.endswith("self_attention") or torch.equal(weights, weights.tril())


def test_another_backend_translates_alike():
    own, other = (translate("transformer", untrained(), "go.", attention) for attention in ("", "chunked"))

    assert other.target == own.target
    assert (own.by, other.by) == ("transformer/eager", "transformer/eager+chunked")
    for name, weights in own.weights.items():
        torch.testing.assert_close(other.weights[name], weights, rtol=1e-4, atol=1e-6)


def test_the_bahdanau_model_has_a_row_of_weights_for_each_step():
    of = translate("seq2seq_attention", untrained("seq2seq_attention"), "I'm home.")

    (weights,) = of.weights["attention"]
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(of.target)))


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("I'm lost.", 'unknown words in "I\'m lost.": lost; '),
        ("", "expected a sentence of 1 to 6 tokens, got 0: ''"),
        ("go . . . . . .", "expected a sentence of 1 to 6 tokens, got 7"),
    ],
)
def test_a_sentence_that_cannot_be_translated_is_refused(sentence, message):
    with pytest.raises(UsageError) as refused:
        translate("transformer", untrained(), sentence)
    assert str(refused.value).startswith(message)


def test_an_attention_that_raises_is_refused(write):
    file = write("mine.py", "def attention(query, key, value, **options):\n    raise OSError('no')\n")

    with pytest.raises(UsageError, match=r"transformer/eager\+.*mine.py gave no weights: OSError: no"):
        translate("transformer", untrained(), "go.", str(file))


# Drawing


def marks(root, kind):
    groups = [node for node in root.iter(f"{SVG}g") if node.get("class", "").startswith(f"mark-{kind} role-mark")]
    return [list(group) for group in groups]


def texts(root):
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def has_its_cells(root, picture):
    """A rectangle for each run of equal numbers, a colour per number, and the numbers."""
    colours = {}
    for group, one in zip(marks(root, "rect"), picture.maps, strict=True):
        values = [value for row in one.rows for value, _ in groupby(row)]
        for mark, value in zip(group, values, strict=True):
            assert colours.setdefault(value, mark.get("fill")) == mark.get("fill")
    if picture.numbers:
        cells = sum(len(row) for one in picture.maps for row in one.rows)
        cells -= sum(len(one.hidden) for one in picture.maps)
        written = [text for group in marks(root, "text") for text in group if re.fullmatch(r"-?\d?\.?\d+", text.text)]
        assert len(written) == cells
    for axis in (picture.across, picture.down):
        assert {axis.title, *filter(None, axis.labels)} <= set(texts(root))


def has_its_points(root, picture):
    """A vertex or a symbol for each point."""
    lines = [mark.get("d").count("L") + 1 for group in marks(root, "line") for mark in group]
    series = [each for panel in picture.panels for each in panel.series]
    assert sorted(lines) == sorted(len(each.points) for each in series if each.style is not LineStyle.POINTS)
    assert [len(group) for group in marks(root, "symbol")] == [
        len(each.points) for each in series if each.style is LineStyle.POINTS
    ]
    titles = {panel.title for panel in picture.panels} | {panel.across or picture.across for panel in picture.panels}
    assert {picture.up, *titles} - {""} <= set(texts(root))


def has_its_marks(root, picture):
    (has_its_cells if isinstance(picture, HeatMaps) else has_its_points)(root, picture)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*UNTRAINED, ".attention", ".self_attention", ".cross_attention"])
def test_a_figure_is_drawn_with_a_mark_for_each_number(name, tmp_path):
    if name in FIGURES:
        picture = FIGURES[name].picture()
    else:
        picture = heads(translate("transformer", untrained(), "I'm home."), name)
    (target,) = targets(tmp_path, [name])

    svg, png = target.write(picture)

    root, pixels = ElementTree.parse(svg).getroot(), png.read_bytes()
    assert [root.find(f"{SVG}{part}").text or "" for part in ("title", "desc")] == [picture.title, picture.description]
    assert {f"{name}-title", f"{name}-desc"} == set(root.get("aria-labelledby").split())
    has_its_marks(root, picture)
    size = tuple(drawing.ZOOM * float(root.get(side)) for side in ("width", "height"))
    assert struct.unpack(">II", pixels[16:24]) == size


def test_a_curve_goes_through_its_points():
    """The panel has 200 pixels for 0 to 1; the file has heights to a hundredth of a pixel."""
    picture = FIGURES["kernels"].picture()

    path = marks(ElementTree.fromstring(drawing.svg("kernels", picture)), "line")[0][0].get("d")

    heights = [1 - float(y) / 200 for y in re.findall(r"[ML][\d.e-]+,([\d.e-]+)", path)]
    assert heights == pytest.approx([y for _, y in picture.panels[0].series[0].points], abs=1e-4)


def test_a_larger_weight_is_darker_and_a_cell_has_its_number_to_two_decimals():
    shades = ElementTree.fromstring(drawing.svg("t", small(*(place / 10 for place in range(11)))))
    numbers = ElementTree.fromstring(drawing.svg("t", small(0.0, 0.001, 0.354, 1.0, 2.0, 10.05, -0.5)))

    light = [sum(map(int, re.findall(r"\d+", mark.get("fill")))) for mark in marks(shades, "rect")[0]]
    assert light == sorted(set(light), reverse=True)
    assert [mark.text for mark in marks(numbers, "text")[0]] == [".00", ".00", ".35", "1.00", "2.00", "10.05", "-.50"]


def test_a_hidden_cell_is_hatched_and_has_no_number():
    picture = HeatMaps(
        "s", (HeatMap(((0.5, 0.0),), hidden=frozenset({(0, 1)})),), Axis("key", ("a", "b")), Axis("q", ("c",))
    )
    drawn = ElementTree.fromstring(drawing.svg("t", picture))
    plain = ElementTree.fromstring(drawing.svg("t", replace(picture, maps=(HeatMap(((0.5, 0.0),)),))))

    assert [mark.text for mark in marks(drawn, "text")[0]] == [".50"]
    assert [mark.text for mark in marks(plain, "text")[0]] == [".50", ".00"]
    assert len(marks(drawn, "rule")[0]) == 2
    assert all(len(group) != 2 for group in marks(plain, "rule"))


def test_masks_of_figures_hide_the_cells_that_the_attention_hides():
    causal, softmax = FIGURES["causal_mask"].picture(), FIGURES["masked_softmax"].picture()
    weights = FIGURES["weights"].picture(causal=True)

    assert [len(matrix.hidden) for matrix in causal.maps] == [0, 15, 15]
    for matrix in (*causal.maps, *softmax.maps, *weights.maps):
        assert all(matrix.rows[row][column] == 0 for row, column in matrix.hidden)
    assert sum(len(matrix.hidden) for matrix in softmax.maps) == 4 + 2 + 4 + 2


def test_the_colours_of_weights_span_the_visible_ones():
    for causal in (False, True):
        picture = FIGURES["weights"].picture(causal=causal)
        matrix = picture.maps[0]
        shown = [v for i, row in enumerate(matrix.rows) for j, v in enumerate(row) if (i, j) not in matrix.hidden]
        assert picture.domain == (min(shown), max(shown))


def test_a_grid_shares_its_axes_and_its_colour_bar():
    maps = (HeatMap(((0.5, 0.25), (0.0, 1.0))),) * 6
    picture = HeatMaps("s", maps, Axis("key", ("a", "b")), Axis("query", ("c", "d")), 3, numbers=False)

    labels = texts(ElementTree.fromstring(drawing.svg("t", picture)))

    assert [labels.count(word) for word in ("key", "a", "query", "c", "weight")] == [3, 3, 2, 2, 1]


def test_hostile_words_of_a_sentence_are_text():
    hostile = "<script>alert('1')</script>&amp;]]>\x1b[31m\x00\udc80\u202e '];alert(1);[' \\"

    root = ElementTree.fromstring(drawing.svg("weights", FIGURES["weights"].picture(sentence=hostile)))

    tags = ["svg", "g", "path", "rect", "line", "text", "title", "desc", "defs", "clipPath", "linearGradient", "stop"]
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= set(tags)
    assert {"'];alert(1);['", "\\"} <= set(texts(root))


# Files


def written(folder, picture=None, **options):
    (target,) = targets(folder, ["one"], **options)
    return target.write(picture or small(0.25, 0.75))


@pytest.mark.parametrize("name", ["one.svg", "one.png"])
def test_an_existing_file_stays_without_overwrite_and_no_other_file_is_written(name, tmp_path):
    (tmp_path / name).write_bytes(b"mine")

    with pytest.raises(UsageError, match=rf"{name} exists: name another folder with --to, or replace files with --ov"):
        targets(tmp_path, ["another", "one"])

    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"]
    assert all(b"mine" not in file.read_bytes() for file in written(tmp_path, overwrite=True))


def test_a_folder_in_place_of_a_file_is_refused(tmp_path):
    (tmp_path / "two.png").mkdir()
    (tmp_path / "file").write_text("mine")

    with pytest.raises(UsageError, match=r"two\.png is a folder: move it away$"):
        targets(tmp_path, ["two"], overwrite=True)
    with pytest.raises(UsageError, match="cannot be made"):
        targets(tmp_path / "file", ["one"])


def test_a_file_that_cannot_be_written_keeps_the_former_one(tmp_path, monkeypatch):
    svg, _ = written(tmp_path / "new" / "folder")
    before = svg.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        written(svg.parent, small(0.5, 0.5), overwrite=True)

    assert svg.read_bytes() == before
    assert sorted(path.name for path in svg.parent.iterdir()) == ["one.png", "one.svg"]


# The page


def numbers(text):
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", text)]


def test_the_page_shows_every_figure_and_the_command_that_draws_it():
    drawn = " ".join(re.findall(r"attnsuite draw ([\w ]+)", PAGE)).split()

    assert set(re.findall(r"\(figures/(\w+)\.svg\)", PAGE)) == set(FIGURES) <= set(drawn)
    assert all(re.match(r"doc-00\d, sections? [\d.]+", figure.source) for figure in FIGURES.values())


def test_every_figure_is_committed_and_all_of_them_are_small():
    files = sorted((DOCS / "figures").glob("*.svg"))

    assert [file.stem for file in files] == list(FIGURES)
    assert sum(file.stat().st_size for file in files) < 1_500_000


@pytest.mark.parametrize("name", FIGURES)
def test_a_committed_figure_shows_what_is_drawn_today(name):
    """Its description, which says where the largest numbers are; digits that depend on the order of sums aside."""
    root, figure = ElementTree.parse(DOCS / "figures" / f"{name}.svg").getroot(), FIGURES[name]
    description = root.find(f"{SVG}desc").text

    assert root.find(f"{SVG}title").text == figure.title
    if figure.trains:
        assert description.startswith("i'm home . → je suis chez moi .; ")
        return
    picture = figure.picture()
    assert re.sub(r"[\d.e-]+", "", description) == re.sub(r"[\d.e-]+", "", picture.description)
    assert numbers(description) == pytest.approx(numbers(picture.description), rel=1e-3, abs=1e-6)
