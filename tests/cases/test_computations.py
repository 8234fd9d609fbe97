"""Declared axes are checked: letters are sizes, and a letter that stands twice is one size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnsuite.cases.computations import Axes, broadcasts

MAPS = Axes(x="… e", w="e f", b="f")


def tensors(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


def test_sizes_are_told_by_letter() -> None:
    assert MAPS.check(tensors(x=(2, 3, 4), w=(4, 5), b=(5,))) == {"…": (2, 3), "e": 4, "f": 5}
    assert MAPS.check(tensors(x=(4,), w=(4, 5), b=(5,)))["…"] == ()


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ({"x": (2, 3), "w": (4, 5), "b": (5,)}, r"w is \(4, 5\), not e f with .*'e': 3"),
        ({"x": (2, 4), "w": (4, 5), "b": (1,)}, r"b is \(1,\), not f with .*'f': 5"),
        ({"x": (2, 4), "w": (4, 5, 1), "b": (5,)}, r"w is \(4, 5, 1\), not e f"),
        ({"x": (), "w": (4, 5), "b": (5,)}, r"x is \(\), not … e"),
    ],
    ids=["size", "broadcast", "rank", "no_axis"],
)
def test_what_does_not_fit_is_named_beside_what_is_due(shapes: dict[str, tuple[int, ...]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MAPS.check(tensors(**shapes))


def test_leading_axes_are_alike_for_all() -> None:
    axes = Axes(x="… e", y="… e")
    axes.check(tensors(x=(2, 3, 4), y=(2, 3, 4)))
    with pytest.raises(ValueError, match=r"y is \(1, 3, 4\)"):
        axes.check(tensors(x=(2, 3, 4), y=(1, 3, 4)))


def test_a_letter_twice_in_one_tensor_is_a_square() -> None:
    with pytest.raises(ValueError, match="w is"):
        Axes(w="p p").check(tensors(w=(2, 3)))


def test_what_is_none_or_not_given_is_left_out() -> None:
    assert MAPS.check({"x": torch.zeros(2, 3), "w": None}) == {"…": (2,), "e": 3}


@pytest.mark.parametrize(
    ("shape", "fits"), [((3,), True), ((1, 1), True), ((4, 3), True), ((2, 4, 3), False), ((2, 3), False)]
)
def test_a_mask_broadcasts_without_making_a_shape_larger(shape: tuple[int, ...], fits: bool) -> None:
    assert broadcasts(torch.zeros(shape), 4, 3) is fits
