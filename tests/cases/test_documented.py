"""Cases whose numbers or shape a document gives."""

import numpy as np
import pytest
import torch

from attnsuite.cases import Reply
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import Generator, Inputs
from attnsuite.contracts import contract, names
from attnsuite.contracts.sources import documents
from attnsuite.contracts.steps.kernel_pooling import Curve
from attnsuite.judging.running_error import WithError
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Figures, Source

SOURCE = Source("doc-9/2-halves", "doc-9", "2", "output")
DERIVED = [1 / 6, 1 / 3, 0.5]


def halved(x: WithError) -> WithError:
    return x * 0.5


def drawn(random: Generator, *, size: int = 3) -> Inputs:
    return {"x": np.arange(1.0, size + 1) / 3}


formula = Formula(halved, ("x",), drawn)


def verdict_on(case: DocumentedNumbers | DocumentedShape, output: torch.Tensor, dtype: str = "float64") -> Verdict:
    calls = case.calls(dtype)
    return case.verdict(calls, (Reply(output),), case.expected(calls, {}))


def right(case: DocumentedNumbers | DocumentedShape, dtype: str = "float64") -> torch.Tensor:
    (expected,) = case.expected(case.calls(dtype), {})
    return torch.from_numpy(expected.numbers).to(getattr(torch, dtype))


@pytest.mark.parametrize(
    ("figures", "status"),
    [
        (Figures(SOURCE, [0.1667, 0.3333, 0.5], 4), "passed"),
        (Figures(SOURCE, [0.1666, 0.3333, 0.5], 4), "failed"),
        (Figures(SOURCE, DERIVED), "passed"),
        (Figures(SOURCE, [1 / 6, 1 / 3 + 1e-5, 0.5]), "failed"),
        (Figures(SOURCE, [0.16667, 0.33333, 0.5], significant=5), "passed"),
        (Figures(SOURCE, [0.16669, 0.33333, 0.5], significant=5), "failed"),
        (Figures(SOURCE, [0.1667, 0.3333], 4), "failed"),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_are_compared_as_precisely_as_they_are_printed(figures: Figures, status: str, dtype: str) -> None:
    case = DocumentedNumbers(formula("documents/doc-9/2-halves/output", "doc-9, section 2: output"), figures)

    assert verdict_on(case, right(case, dtype), dtype).status == status


def test_a_wrong_result_fails_whatever_the_document_prints() -> None:
    case = DocumentedNumbers(formula("documents/any", "any"), Figures(SOURCE, [1.0, 1.0, 1.0], 4))

    found = verdict_on(case, torch.ones(3).double())

    assert found.detail.startswith("output[0] is 1, should be 0.1666667")


def test_a_part_of_the_output_may_be_what_is_printed() -> None:
    case = DocumentedNumbers(formula("documents/any", "any"), Figures(SOURCE, 0.5, 4), lambda output: output[-1])

    assert verdict_on(case, right(case)).status == "passed"


def test_a_shape_that_the_document_does_not_give_is_wrong() -> None:
    case = DocumentedShape(formula("documents/any", "any"), SOURCE, [4])

    assert verdict_on(case, right(case)).detail == "output has shape (3,), the document prints (4,)"


@pytest.mark.parametrize("name", names())
def test_every_case_of_a_document_knows_where_its_example_stands(name: str) -> None:
    for case in contract(name).cases():
        assert (case.source is not None) == (case.family == "documents"), case.name
        if case.source is not None:
            assert case.name.startswith(f"documents/{case.source.example}")
            assert case.source.document == case.source.example.split("/")[0]
            if known := documents.examples().get(case.source.example):
                assert case.source.section == known.section
            assert f"{case.source.document}, section {case.source.section}" in case.why


def test_a_wrong_curve_of_a_kernel_fails() -> None:
    """Its quantity is a quotient of outputs: the tolerance is not the quotient of their bounds, which is about 1."""
    curves = [case for case in contract("kernel_pooling").cases() if isinstance(case, Curve)]

    assert len(curves) == 12
    for case in curves:
        (expected,) = case.expected(case.calls("float64"), {})
        most = 0.3 if case.name.endswith("/boxcar") else 2e-9  # at the edge of a box a weight may be 0 or 1
        assert case.tolerance(expected, "float64").max() < most, case.name
