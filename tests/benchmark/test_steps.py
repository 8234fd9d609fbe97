"""A training step in a benchmark: an honest one has a time, one with a wrong gradient or none has its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from racers import CEILINGS

from attnsuite import registry
from attnsuite.benchmark.request import Request
from attnsuite.benchmark.series import Benchmark
from attnsuite.contracts import contract
from attnsuite.model import Measurement, Outcome, Status

LAYER = "multi_head_attention"
HEAD = f"from attnsuite.implementations.{LAYER}.split_heads import {LAYER} as split_heads\n"
MODEL = "from attnsuite.implementations.{0}.eager import {0} as eager\n\n\ndef {0}(*given):\n    return eager(*given)\n"
LACKING = """
from attnsuite.contracts.attention.mutants.gradients import MUTANTS

(lacking,) = (mutant.function for mutant in MUTANTS if mutant.name == "gradient_lacks_mean")
"""
Write = Callable[[str, str], Path]


def rows(file: Path, of: str = LAYER, workload: str = "translation/128") -> dict[str, Measurement]:
    """The measurements of a file that has passed all cases of a contract, by direction."""
    named = registry.find([str(file)], of)
    name = named[0].full_name
    cases = [case.name for case in contract(of).cases()]
    earlier = {name: [Outcome(name, of, case, "float32", "cpu", Status.PASSED) for case in cases]}
    request = Request((workload,), step=True, budget=0.005)
    benchmark = Benchmark(contract(of), named, request, earlier, ceilings=CEILINGS)
    return {row.direction: row for _, found in benchmark.run() for row in found}


def layer(write: Write, returned: str, head: str = "") -> Path:
    return write("mine.py", f"{HEAD}{head}\n\ndef {LAYER}(*given, **named):\n    return {returned}\n")


@pytest.mark.slow
def test_an_honest_step_has_a_time_and_three_times_the_operations_of_its_forward(write: Write) -> None:
    found = rows(layer(write, "split_heads(*given, **named)"))

    assert {direction: row.status for direction, row in found.items()} == {"forward": "measured", "step": "measured"}
    assert len(found["step"].seconds) >= 12
    assert found["step"].work["attended"] == 3 * found["forward"].work["attended"]
    assert found["step"].error_ratio is not None


@pytest.mark.slow
@pytest.mark.parametrize("of", ["transformer", "seq2seq_attention"])
def test_a_model_that_learns_has_a_time(of: str, write: Write) -> None:
    found = rows(write("mine.py", MODEL.format(of)), of, "translator/10")

    assert {direction: row.status for direction, row in found.items()} == {"forward": "measured", "step": "measured"}
    assert found["step"].error_ratio is not None


@pytest.mark.slow
def test_a_wrong_gradient_behind_a_right_answer_has_no_time(write: Write) -> None:
    found = rows(layer(write, "split_heads(*given, **named, attention=lacking)", LACKING))

    assert found["forward"].status == "measured"
    assert (found["step"].status, found["step"].seconds) == ("refused", ())
    assert "its output was wrong while it was timed: gradient of w_" in found["step"].detail


def test_what_has_no_gradient_is_declined(write: Write) -> None:
    found = rows(layer(write, "split_heads(*given, **named).detach()"))

    assert found["forward"].status == "measured"
    assert (found["step"].status, found["step"].detail) == (
        "unsupported",
        "no gradient reaches its weights: it is built for inference",
    )
