"""Rows of tables become computations with one wrong step."""

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.changes import first_for_all, hidden_last, repeated_beyond, turned
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, broadcasts
from attnsuite.cases.contract import collected
from attnsuite.cases.mutants import Mutation, StepChange, formula, mutants, unless_none, with_arguments, with_result

X, W = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 10.0], [0.0, 1.0]])


class Map(Steps):
    """x w, with its sign changed on request."""

    axes = Axes(x="l e", w="e f")
    choices: ClassVar = {"sign": ("plus", "minus")}

    def compute(self, x: Tensor, w: Tensor, *, sign: str = "plus") -> Tensor:
        return self.signed(self.product(x, w), sign)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        if not sizes["l"]:
            raise ValueError("no rows")

    product = formula(lambda x, w: x @ w)
    signed = formula(lambda product, sign: product if sign == "plus" else -product)


def wrong(step: str, replacement: Any) -> Any:
    (mutant,) = mutants(Map, **{step: {"it": Mutation("it is wrong", replacement)}})
    return mutant.function


def test_a_row_is_a_mutant() -> None:
    table = {"halved": Mutation("it is halved", with_result(lambda y: y / 2), "a paper", ("float64",))}
    (mutant,) = mutants(Map, product=table)

    assert (mutant.name, mutant.says, mutant.source, mutant.dtypes) == (
        "halved",
        "it is halved",
        "a paper",
        ("float64",),
    )
    assert torch.equal(mutant.function(X, W), X @ W / 2)


@pytest.mark.parametrize(
    ("step", "replacement", "expected"),
    [
        ("product", lambda x, w: x + w, -(X + W)),
        ("product", with_arguments(w=turned), -(X @ W.mT)),
        ("product", with_arguments(w=lambda w, x: w * x), -(X @ (W * X))),
        ("product", with_arguments(x=lambda x, w: w, w=lambda w, x: x), -(W @ X)),  # changes see unchanged arguments
        ("product", with_result(lambda y, x: y - x), X - X @ W),
        ("product", StepChange(after=torch.neg), X @ W),
        ("whole", with_arguments(sign=lambda sign: "plus"), X @ W),
    ],
)
def test_a_step_is_replaced_or_changed(step: str, replacement: Any, expected: Tensor) -> None:
    assert torch.equal(wrong(step, replacement)(X, W, sign="minus"), expected)


def test_an_optional_argument_that_is_none_stays_none() -> None:
    offset = unless_none(lambda offset, x: offset * x)
    step = with_arguments(offset=offset).applied_to(lambda x, offset=None: x if offset is None else x + offset)

    assert torch.equal(step(X), X)
    assert torch.equal(step(X, W), X + W * X)


@pytest.mark.parametrize(
    ("step", "change", "error", "message"),
    [
        ("product", with_arguments(bias=turned), TypeError, "has no bias"),
        ("product", with_result(lambda y, sign: y), TypeError, "has no sign"),
        ("sum", with_result(turned), ValueError, "Map has no step 'sum'"),
        ("sum", torch.add, ValueError, "Map has no step 'sum'"),
    ],
)
def test_an_unknown_step_or_argument_is_an_error_at_once(step: str, change: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        wrong(step, change)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, W[:1]), {}, "w is"),
        ((X, W), {"sign": "both"}, "sign is 'both', none of plus, minus"),
        ((X[:0], W), {}, "no rows"),
    ],
    ids=["axes", "choices", "check"],
)
def test_bad_input_is_refused_before_any_step(arguments: Any, options: Any, message: str) -> None:
    for function in (Map(), wrong("product", with_result(turned)), Map.validated(torch.matmul)):
        with pytest.raises(ValueError, match=message):
            function(*arguments, **options)


def test_two_mutants_of_one_name_are_an_error() -> None:
    mutant, other = Mutant("same", "", len), Mutant("same", "", len)

    assert collected([mutant, [mutant], "no mutant"]) == [mutant]
    with pytest.raises(ValueError, match="two mutants are named same"):
        collected([mutant, [other]])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (first_for_all(), [[1.0, 2.0], [1.0, 2.0]]),
        (first_for_all(from_rank=3), X.tolist()),
        (repeated_beyond(1, -1), [[1.0, 1.0], [3.0, 3.0]]),
        (repeated_beyond(2, -1), X.tolist()),
        (hidden_last(1), [[1.0, -torch.inf], [3.0, -torch.inf]]),
        (hidden_last(2), X.tolist()),
    ],
)
def test_a_change_of_a_tensor(change: Any, expected: list[list[float]]) -> None:
    assert change(X).tolist() == expected


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
