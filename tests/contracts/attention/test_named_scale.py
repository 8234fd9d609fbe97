"""A scale that is left out is named both where it is the default and where it is given."""

from __future__ import annotations

from torch import Tensor

import attnsuite


def leaves_out_every_scale(query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None) -> Tensor:
    return (query @ key.mT).softmax(-1) @ value


def test_a_given_scale_that_is_left_out_is_no_limit_of_the_scale() -> None:
    outcomes = attnsuite.check(leaves_out_every_scale, cases=("plain", "scale"), dtypes="float32")
    named = {outcome.case: outcome.diagnosis for outcome in outcomes if outcome.fails}

    assert named["plain/small"] == ("unscaled",)
    assert named["scale/half"] == named["scale/large"] == ("leaves_out_given_scale",)
    assert set(named.values()) == {("unscaled",), ("leaves_out_given_scale",)}
