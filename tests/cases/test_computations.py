"""Axes are letters: each is one size, and tensors that do not fit are refused."""

import pytest
import torch
from torch import Tensor

from attnsuite.cases.computations import Axes, broadcasts

MAPS = Axes(x="… e", w="e f", b="f")


def tensors(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize(("x", "front"), [((2, 3, 4), (2, 3)), ((4,), ())])
def test_each_letter_has_a_size(x: tuple[int, ...], front: tuple[int, ...]) -> None:
    assert MAPS.check(tensors(x=x, w=(4, 5), b=(5,))) == {"…": front, "e": 4, "f": 5}


@pytest.mark.parametrize(
    ("axes", "shapes", "message"),
    [
        (MAPS, {"x": (2, 3), "w": (4, 5), "b": (5,)}, r"w is \(4, 5\), not e f with .*'e': 3"),
        (MAPS, {"x": (2, 4), "w": (4, 5), "b": (1,)}, r"b is \(1,\), not f with .*'f': 5"),
        (MAPS, {"x": (2, 4), "w": (4, 5, 1), "b": (5,)}, r"w is \(4, 5, 1\), not e f"),
        (MAPS, {"x": (), "w": (4, 5), "b": (5,)}, r"x is \(\), not … e"),
        (Axes(x="… e", y="… e"), {"x": (2, 3, 4), "y": (1, 3, 4)}, r"y is \(1, 3, 4\)"),
        (Axes(w="p p"), {"w": (2, 3)}, "w is"),
    ],
    ids=["size", "broadcast", "rank", "no_axis", "leading", "square"],
)
def test_a_tensor_that_does_not_fit_is_named(axes: Axes, shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        axes.check(tensors(**shapes))


def test_missing_tensors_are_not_checked() -> None:
    assert MAPS.check({"x": torch.zeros(2, 3), "w": None}) == {"…": (2,), "e": 3}


@pytest.mark.parametrize(
    ("shape", "fits"), [((3,), True), ((1, 1), True), ((4, 3), True), ((2, 4, 3), False), ((2, 3), False)]
)
def test_a_mask_broadcasts_without_enlarging_a_shape(shape: tuple[int, ...], fits: bool) -> None:
    assert broadcasts(torch.zeros(shape), 4, 3) is fits
