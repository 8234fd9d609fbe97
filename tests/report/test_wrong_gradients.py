"""Which wrong gradients show, of trainings that are made up."""

from __future__ import annotations

from attnsuite.model import RIGHT_GRADIENT, WRONG_GRADIENTS, Learned
from attnsuite.report.wrong_gradients import comparison, seen


def of(name: str, *ends: tuple[float, float]) -> list[Learned]:
    """Trainings of a gradient that ended with these losses and scores, one for each seed."""
    return [
        Learned(name, WRONG_GRADIENTS, seed, "cpu", (2.0, loss), {"accuracy": score})
        for seed, (loss, score) in enumerate(ends)
    ]


RIGHT = of(RIGHT_GRADIENT, (0.1, 0.97), (0.2, 0.98))


def said(learned: list[Learned]) -> str:
    return " ".join(map(str, comparison(learned)))


def test_a_gradient_shows_by_its_loss_or_by_its_score() -> None:
    assert seen(of("a", (0.3, 0.98), (0.2, 0.96)), RIGHT) == 2
    assert seen(of("a", (0.2, 0.97), (0.3, 0.98)), RIGHT) == 1


def test_what_lies_within_the_seeds_of_the_right_one_or_is_better_does_not_show() -> None:
    assert seen(of("a", (0.2, 0.97), (0.05, 0.99)), RIGHT) == 0


def test_each_gradient_is_said_to_show_or_not() -> None:
    learned = [
        *RIGHT,
        *of("bad", (2.0, 0.1), (2.1, 0.2)),
        *of("mild", (0.3, 0.97), (0.1, 0.97)),
        *of("fine", (0.1, 0.98)),
    ]

    found = said(learned)

    every, some, none = (found.index(words) for words in ("Shows in every seed", "Shows in some", "Does not show"))
    assert found.index("bad", every) < some
    assert some < found.index("mild", some) < none
    assert "fine" in found[none:]


def test_without_the_right_one_nothing_is_said() -> None:
    assert said(of("bad", (2.0, 0.1))) == ""
    assert said(RIGHT) == ""
