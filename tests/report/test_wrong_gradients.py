"""Wrong gradients: a difference that the right gradient has by chance does not show."""

from dataclasses import replace
from pathlib import Path
from random import Random

from builders import RUN, recorded

from attnsuite.model import RIGHT_GRADIENT, WRONG_GRADIENTS, TrainingRow
from attnsuite.report.report_page import PAIRS, comparisons, report_text


def rows(name: str, losses: list[float], scores: list[float], epochs: int = 8) -> list[TrainingRow]:
    return [
        TrainingRow(name, WRONG_GRADIENTS, seed, "cpu", (2.0, loss), {"accuracy": score}, config={"epochs": epochs})
        for seed, (loss, score) in enumerate(zip(losses, scores, strict=True))
    ]


RIGHT_LOSSES = [0.745, 0.640, 0.687, 0.572, 0.806, 0.701, 0.655, 0.728]
"""They differ between seeds by more than a mistake changes them."""
RIGHT_SCORES = [0.889, 0.911, 0.897, 0.908, 0.855, 0.893, 0.902, 0.880]
RIGHT = rows(RIGHT_GRADIENT, RIGHT_LOSSES, RIGHT_SCORES)


def test_a_small_difference_of_one_sign_in_every_seed_shows() -> None:
    wrong = rows("lacks_scale", [loss + 0.02 for loss in RIGHT_LOSSES], RIGHT_SCORES)

    (comparison,) = comparisons([*RIGHT, *wrong])

    assert comparison.verdict == "shows in last loss"
    assert comparison.words == "last loss +0.020 (+0.020 to +0.020); accuracy +0.000 (+0.000 to +0.000)"


def test_a_lower_score_shows() -> None:
    wrong = rows("lacks_scale", RIGHT_LOSSES, [score - 0.1 for score in RIGHT_SCORES])

    (comparison,) = comparisons([*RIGHT, *wrong])

    assert comparison.verdict == "shows in accuracy"


def test_one_seed_beyond_all_right_ones_does_not_show() -> None:
    changes = [0.3, -0.01, 0.01, -0.02, 0.02, -0.01, 0.01, 0.0]
    wrong = rows("rounds", [a + b for a, b in zip(RIGHT_LOSSES, changes, strict=True)], RIGHT_SCORES)

    (comparison,) = comparisons([*RIGHT, *wrong])

    assert comparison.verdict == "shows in nothing"


def test_the_right_gradient_from_other_seeds_rarely_shows() -> None:
    random, shown = Random(0), 0
    for _ in range(400):
        draws = [
            rows(name, [random.gauss(0.7, 0.08) for _ in range(PAIRS)], [0.9] * PAIRS) for name in ("same", "right")
        ]
        shown += comparisons([*draws[0], *draws[1]])[0].verdict != "shows in nothing"

    assert shown <= 12  # 0.8 % of 400 are 3; more than 12 have a probability below 1e-4


def test_too_few_seeds_show_nothing() -> None:
    wrong = rows("lacks_scale", [9.0] * 3, [0.1] * 3)

    (comparison,) = comparisons([*RIGHT, *wrong])

    assert comparison.verdict == f"unknown: 3 of {PAIRS} seeds are trained"
    assert "to" not in comparison.words


def test_trainings_of_other_epochs_are_no_pairs() -> None:
    wrong = rows("lacks_scale", RIGHT_LOSSES, RIGHT_SCORES, epochs=2)

    (comparison,) = comparisons([*RIGHT, *wrong])

    assert comparison.pairs == 0
    assert comparison.verdict.startswith("unknown: 0 of")


def test_a_machine_that_trained_wrong_gradients_alone_has_them_on_the_page() -> None:
    wrong = rows("lacks_scale", [loss + 0.02 for loss in RIGHT_LOSSES], RIGHT_SCORES)
    trained = replace(recorded({}), trained=tuple((RUN.id, row) for row in (*RIGHT, *wrong)))

    text = report_text({RUN.machine.name: trained}, {RUN.machine.name: []}, Path("nowhere"))

    assert "shows in last loss" in text
