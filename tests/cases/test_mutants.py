"""Rows of tables become computations with one wrong step."""

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps
from attnsuite.cases.contract import collected
from attnsuite.cases.mutants import (
    Mutation,
    StepChange,
    first_for_all,
    formula,
    hidden_last,
    mutants,
    repeated_beyond,
    turned,
    unless_none,
    with_arguments,
    with_result,
)

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
