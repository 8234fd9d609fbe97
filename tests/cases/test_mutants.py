"""Rows of tables become computations that go wrong in one step."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps
from attnsuite.cases.contract import collected
from attnsuite.cases.mutants import (
    StepChange,
    Wrong,
    first_for_all,
    formula,
    given,
    hidden_last,
    if_given,
    mutants,
    repeated_beyond,
    rows,
    then,
    turned,
)

X, W = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 10.0], [0.0, 1.0]])


class Map(Steps):
    """x w, and then its sign changed where that is asked for."""

    axes = Axes(x="l e", w="e f")
    choices: ClassVar = {"sign": ("plus", "minus")}

    def compute(self, x: Tensor, w: Tensor, *, sign: str = "plus") -> Tensor:
        return self.signed(self.product(x, w), sign)

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        if not sizes["l"]:
            raise ValueError("no rows")

    product = formula(lambda x, w: x @ w)
    signed = formula(lambda product, sign: product if sign == "plus" else -product)


def wrong(step: str, replacement: Any) -> Any:
    (made,) = mutants(Map, **{step: rows(it=Wrong("it is wrong", replacement))})
    return made.function


def test_a_row_is_a_deviation() -> None:
    (made,) = mutants(Map, product=rows(halved=Wrong("it is halved", then(lambda y: y / 2), "a paper", ("float64",))))

    assert (made.name, made.says, made.source, made.dtypes) == ("halved", "it is halved", "a paper", ("float64",))
    assert torch.equal(made.function(X, W), X @ W / 2)


def test_a_step_is_replaced_by_a_function() -> None:
    assert torch.equal(wrong("product", lambda x, w: x + w)(X, W, sign="minus"), -(X + W))


def test_arguments_are_changed_before_a_step() -> None:
    assert torch.equal(wrong("product", given(w=turned))(X, W), X @ W.mT)


def test_a_change_is_told_the_other_arguments_by_name() -> None:
    assert torch.equal(wrong("product", given(w=lambda w, x: w * x))(X, W), X @ (W * X))
    assert torch.equal(wrong("product", then(lambda y, x: y - x))(X, W), X @ W - X)


def test_an_optional_argument_that_is_none_stays_none() -> None:
    offset = if_given(lambda offset, x: offset * x)
    step = given(offset=offset).of(lambda x, offset=None: x if offset is None else x + offset)

    assert torch.equal(step(X), X)
    assert torch.equal(step(X, W), X + W * X)


def test_all_changes_see_what_came() -> None:
    assert torch.equal(wrong("product", given(x=lambda x, w: w, w=lambda w, x: x))(X, W), W @ X)


def test_the_whole_computation_is_a_step_too() -> None:
    ignores = wrong("whole", given(sign=lambda sign: "plus"))

    assert torch.equal(ignores(X, W, sign="minus"), X @ W)
    assert torch.equal(ignores(X, W, sign="neither"), X @ W)


def test_what_the_step_does_not_take_is_an_error_at_once() -> None:
    with pytest.raises(TypeError, match="has no bias"):
        wrong("product", given(bias=turned))
    with pytest.raises(TypeError, match="has no sign"):
        wrong("product", then(lambda y, sign: y))
    with pytest.raises(AttributeError, match="sum"):
        wrong("sum", then(turned))


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((X, W[:1]), {}, "w is"),
        ((X, W), {"sign": "both"}, "sign is 'both', none of plus, minus"),
        ((X[:0], W), {}, "no rows"),
    ],
    ids=["axes", "choices", "check"],
)
def test_bad_input_is_refused_before_any_step(arguments: Any, options: Any, says: str) -> None:
    for function in (Map(), wrong("product", then(turned)), Map.checked(torch.matmul)):
        with pytest.raises(ValueError, match=says):
            function(*arguments, **options)


def test_two_mistakes_of_one_name_are_an_error() -> None:
    one, other = Mutant("same", "", len), Mutant("same", "", len)

    assert collected([one, [one], "no deviation"]) == [one]
    with pytest.raises(ValueError, match="two mutants are named same"):
        collected([one, [other]])


def test_changes_of_tensors() -> None:
    assert torch.equal(first_for_all()(X), torch.tensor([[1.0, 2.0], [1.0, 2.0]]))
    assert torch.equal(first_for_all(from_rank=3)(X), X)
    assert torch.equal(repeated_beyond(1, -1)(X), torch.tensor([[1.0, 1.0], [3.0, 3.0]]))
    assert torch.equal(repeated_beyond(2, -1)(X), X)
    assert torch.equal(hidden_last(1)(X), torch.tensor([[1.0, -torch.inf], [3.0, -torch.inf]]))
    assert torch.equal(hidden_last(2)(X), X)


def test_changes_of_a_builtin_have_no_further_parameters() -> None:
    assert torch.equal(StepChange(after=torch.neg).of(lambda x: x)(X), -X)
