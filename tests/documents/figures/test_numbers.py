"""The numbers that go into figures are those that the documents print, or that follow from their definitions."""

import json
import math

import pytest
import torch

from attnsuite.contracts.sources.documents import examples
from attnsuite.contracts.steps.kernel_pooling.cases import DATA
from attnsuite.documents.figures import FIGURES, encoding, pooling, sentence, through_time
from attnsuite.documents.figures.drawn import (
    bptt_errors,
    bptt_schemes,
    causal_mask,
    dropout_mask,
    kernels,
    masked_softmax,
    scoring,
)
from attnsuite.documents.figures.implementations import function, weights_of

PRINTED = json.loads(DATA.read_text())
CHOICES = {
    **{kernel: (kernel, 1.0) for kernel in pooling.KERNELS},
    **{f"gaussian_{width}": ("gaussian", width) for width in pooling.WIDTHS[:-1]},
}
"""The documents' seven regressions, by their names in the data."""


def due(example, quantity):
    return torch.tensor(examples()[example].quantities[quantity], dtype=torch.float64)


def shown(name, place=0):
    """The numbers of one map of a figure."""
    return torch.tensor(FIGURES[name].picture().maps[place].rows, dtype=torch.float64)


def assert_printed(found, printed, digits):
    """Equal to a step of the fourth decimal or, where `digits` is given, of the fifth significant digit."""
    printed = torch.tensor(printed, dtype=torch.float64)
    room = 1.1e-4 if digits is None else 1.1e-4 * printed.abs() + 1e-12
    assert torch.all((found - printed).abs() <= room), (found - printed).abs().max()


@pytest.mark.parametrize("example", masked_softmax.EXAMPLES)
def test_masked_softmax_is_the_examples(example):
    found, _ = masked_softmax.weights(example)

    torch.testing.assert_close(found, due(example, "weights"), rtol=0, atol=1e-11)


def test_the_figure_of_masked_softmax_holds_these_weights_to_five_digits():
    _, second = (masked_softmax.weights(example)[0] for example in masked_softmax.EXAMPLES)

    assert torch.all((shown("masked_softmax", 3) - second[1]).abs() <= 5e-6)


@pytest.mark.parametrize("kernel", pooling.KERNELS)
def test_the_kernels_are_those_of_the_document(kernel):
    example = "doc-004/11.2.1-kernel-curves"

    assert kernels.distances().tolist() == examples()[example].inputs["u"]
    torch.testing.assert_close(kernels.heights(kernel), due(example, kernel), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CHOICES)
def test_regressions_and_the_corners_of_their_weights_are_printed_in_the_document(name):
    printed = PRINTED["kernels"][name]
    corners = pooling.weights(*CHOICES[name])[PRINTED["corner_rows"]][:, PRINTED["corner_cols"]]

    assert_printed(pooling.estimate(*CHOICES[name]), printed["y_hat"], None)
    assert_printed(corners, printed["attention_weights"], 5 if printed["attention_weights_format"] == "sci4" else None)


@pytest.mark.parametrize("width", [0.99, 1.01])
def test_a_width_that_is_one_percent_off_is_not_what_the_document_prints(width):
    with pytest.raises(AssertionError):
        assert_printed(pooling.estimate("gaussian", width), PRINTED["kernels"]["gaussian"]["y_hat"], None)


@pytest.mark.parametrize("figure", ["kernel_weights", "width_weights"])
def test_a_map_of_weights_shows_each_of_them_to_a_step_of_its_colours(figure):
    choices = pooling.BY_KERNEL if figure == "kernel_weights" else pooling.BY_WIDTH

    for place, choice in enumerate(choices):
        off = (shown(figure, place) - pooling.weights(*choice)).abs().max()
        assert off <= 0.5 / pooling.SHADES + 5e-6


def test_a_regression_is_drawn_beside_the_truth_and_the_training_points():
    panel = FIGURES["kernel_regressions"].picture().panels[0]
    estimate, truth, points = panel.series

    assert [len(each.points) for each in panel.series] == [50, 50, 40]
    assert_printed(torch.tensor([y for _, y in estimate.points]), PRINTED["kernels"]["gaussian"]["y_hat"], None)
    assert truth.points[10] == (1.0, pytest.approx(2 * math.sin(1) + 1, abs=5e-5))
    assert points.points[0] == (0.5508, 0.69766)


def test_positions_are_encoded_as_in_the_document():
    found = encoding.encoding()
    rows = examples()["doc-004/11.6.3-full-rows"].inputs["positions"]

    torch.testing.assert_close(found[:, 6:10], due("doc-004/11.6.3-columns-6-9", "values"), rtol=0, atol=1e-11)
    torch.testing.assert_close(found[rows], due("doc-004/11.6.3-full-rows", "values"), rtol=0, atol=1e-11)
    assert [name.name for name in FIGURES["position_curves"].picture().panels[0].series] == [
        "column 6",
        "column 7",
        "column 8",
        "column 9",
    ]


def test_the_curves_of_positions_have_the_documents_frequencies():
    """A sine's second difference is −4 sin²(frequency/2) times itself."""
    for series, frequency in zip(
        FIGURES["position_curves"].picture().panels[0].series, (0.1778,) * 2 + (0.1,) * 2, strict=True
    ):
        y = torch.tensor([height for _, height in series.points], dtype=torch.float64)
        bend = -((y[2:] - 2 * y[1:-1] + y[:-2]) @ y[1:-1]) / (y[1:-1] @ y[1:-1])
        assert 2 * math.asin(math.sqrt(float(bend)) / 2) == pytest.approx(frequency, abs=2e-4)


def test_weights_before_and_after_the_causal_mask_are_printed_in_the_document():
    before, masked, causal = causal_mask.weights().values()

    for found, example, quantity in (
        (before, "doc-003/3.4.2-self-attention-v2", "weights"),
        (masked, "doc-003/3.5.1-mask-after-softmax", "masked_weights"),
        (causal, "doc-003/3.5.1-mask-after-softmax", "renormalised"),
    ):
        assert_printed(found, examples()[example].expected[quantity], None)


def test_dropout_doubles_what_it_keeps_and_the_documents_own_draw_stands_beside_ours():
    before, ours, printed = dropout_mask.weights().values()

    kept = ours != 0
    torch.testing.assert_close(ours[kept], 2 * before[kept])
    assert 0 < kept.sum() < (before > 0).sum()
    keep = torch.tensor(examples()[dropout_mask.PRINTED].inputs["keep"])
    assert_printed(2 * before * keep, printed.tolist(), None)


def test_drawing_a_mask_leaves_the_generator_as_it_is():
    torch.manual_seed(5)
    due = torch.rand(3)
    torch.manual_seed(5)

    dropout_mask.weights()
    through_time.flow(3, seed=1, keep=0.5)

    assert torch.equal(torch.rand(3), due)


def test_a_query_finds_its_own_key():
    assert torch.equal(shown("identity"), torch.eye(10).double())


@pytest.mark.parametrize(
    ("place", "example"), [(0, "doc-004/11.3.3-dot-product-shape"), (1, "doc-004/11.3.4-additive-shape")]
)
def test_scores_weigh_the_keys_that_the_document_says(place, example):
    found = scoring.weights()[place]

    assert torch.equal((found > 0).long(), due(example, "nonzero")[:, 0].long())
    torch.testing.assert_close(found.sum(1), torch.ones(2).double())


def test_gradients_flow_to_all_steps_before_to_the_last_few_or_to_those_that_a_draw_leaves():
    full, truncated, randomised = (
        through_time.flow(12, **scheme) for scheme in ({}, {"truncate": 2}, {"keep": 0.5, "seed": 3})
    )

    assert torch.equal(full, torch.ones(12, 12).double().tril())
    assert torch.equal(truncated, full - full.tril(-2))
    passed = [float(randomised[step, step - 1]) for step in range(1, 12)]
    assert set(passed) == {0.0, 2.0}
    for loss in range(12):
        for state in range(loss + 1):
            assert randomised[loss, state] == math.prod(passed[state:loss])


def test_the_figure_of_schemes_shows_each():
    maps = FIGURES["bptt_schemes"].picture().maps

    assert len(maps) == 3
    assert sum(map(sum, maps[1].rows)) == sum(min(step, bptt_schemes.TRUNCATE) for step in range(1, 17))
    assert any(0.0 in row[:place] for place, row in enumerate(maps[2].rows)), "nothing is cut"


def test_errors_of_gradients_end_at_zero_and_a_mean_of_draws_is_closer_than_one():
    truncated = bptt_errors.truncated()
    single, mean = bptt_errors.randomised()

    assert truncated[0] > 0.1
    assert truncated[-1] < 1e-12
    assert (single[-1], mean[-1]) == (0, 0)
    assert all(many < one / 5 for one, many in zip(single[:-1], mean[:-1], strict=True))


@pytest.mark.parametrize("name", ["chunked", "loops", "einsum_numpy", "torch_sdpa.math"])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}])
def test_the_weights_of_an_attention_are_read_whatever_width_its_values_have(name, options):
    query, key = torch.randn(2, 1, 3, 7, 4, generator=torch.Generator().manual_seed(0))

    found = weights_of(function(f"attention/{name}"), query, key, **options)

    allowed = torch.ones(7, 7).tril() if options else torch.ones(7, 7)
    scores = (query @ key.mT / 2).masked_fill(allowed == 0, -math.inf)
    torch.testing.assert_close(found, scores.softmax(-1), rtol=1e-5, atol=1e-6)


def test_the_sentence_of_the_document_has_its_printed_weights_whatever_attention_is_drawn():
    for attention in ("matmul", "chunked"):
        found = torch.tensor(FIGURES["weights"].picture(attention=attention).maps[0].rows)
        assert_printed(found, examples()[sentence.LAYERS].expected["weights"], None)


def test_other_words_are_drawn_from_the_seed_and_the_same_word_is_the_same_vector():
    draw = FIGURES["weights"].picture

    first, again, other = (draw(sentence="a cat sees a cat", seed=seed) for seed in (1, 1, 2))

    assert first == again
    assert first.maps != other.maps
    rows = first.maps[0].rows
    assert rows[0] == rows[3]
    assert [row[1] for row in rows] == [row[4] for row in rows]
