"""A training step in a benchmark: an honest one has a time, one with a wrong gradient or none has its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from attnsuite.benchmark import Benchmark, Request
from attnsuite.contracts import contract
from attnsuite.contracts.attention.mutants.gradients import MUTANTS
from attnsuite.implementations.multi_head_attention.split_heads import multi_head_attention as split_heads
from attnsuite.implementations.seq2seq_attention.eager import seq2seq_attention
from attnsuite.implementations.transformer.eager import transformer
from attnsuite.model import Measurement, Outcome, Status
from attnsuite.registry import from_function

CEILINGS = {("float32", 1): {"flops": 1e18, "bytes": 1e9}}
"""Those of no machine: to measure real ones takes seconds."""


def rows(
    function: Callable[..., Any], of: str = "multi_head_attention", workload: str = "translation/128"
) -> dict[str, Measurement]:
    """The measurements of a function that has passed all cases of a contract, by direction."""
    named = from_function(function, of)
    name = named.declaration.full_name
    cases = [case.name for case in contract(of).cases()]
    earlier = {name: [Outcome(name, of, case, "float32", "cpu", Status.PASSED) for case in cases]}
    request = Request((workload,), step=True, budget=0.005)
    benchmark = Benchmark(contract(of), [named], request, earlier, ceilings=CEILINGS)
    return {row.direction: row for _, found in benchmark.run() for row in found}


@pytest.mark.slow
def test_an_honest_step_has_a_time_and_three_times_the_operations_of_its_forward() -> None:
    def honest(*given: Tensor, **named: Any) -> Tensor:
        return split_heads(*given, **named)

    found = rows(honest)

    assert {direction: row.status for direction, row in found.items()} == {"forward": "measured", "step": "measured"}
    assert len(found["step"].seconds) >= 12
    assert found["step"].work["attended"] == 3 * found["forward"].work["attended"]
    assert found["step"].error_ratio is not None


@pytest.mark.slow
@pytest.mark.parametrize(("model", "of"), [(transformer, "transformer"), (seq2seq_attention, "seq2seq_attention")])
def test_a_model_that_learns_has_a_time(model: Callable[..., Any], of: str) -> None:
    def honest(*given: Any, **named: Any) -> Any:
        return model(*given, **named)

    found = rows(honest, of, "translator/10")

    assert {direction: row.status for direction, row in found.items()} == {"forward": "measured", "step": "measured"}
    assert found["step"].error_ratio is not None


@pytest.mark.slow
def test_a_wrong_gradient_behind_a_right_answer_has_no_time() -> None:
    def lacking(*given: Tensor, **named: Any) -> Tensor:
        mutant = next(mutant for mutant in MUTANTS if mutant.name == "gradient_lacks_mean")
        return split_heads(*given, **named, attention=mutant.function)

    found = rows(lacking)

    assert found["forward"].status == "measured"
    assert (found["step"].status, found["step"].seconds) == ("refused", ())
    assert "its output was wrong while it was timed: gradient of w_" in found["step"].detail


def test_what_has_no_gradient_is_declined() -> None:
    def detached(*given: Tensor, **named: Any) -> Tensor:
        return split_heads(*given, **named).detach()

    found = rows(detached)

    assert found["forward"].status == "measured"
    assert (found["step"].status, found["step"].detail) == (
        "unsupported",
        "no gradient reaches its weights: it is built for inference",
    )
