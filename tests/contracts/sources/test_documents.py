"""The source documents' examples: complete, reproduced digit by digit, and able to fail."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from attnsuite.cases import Reply
from attnsuite.cases.documented import DERIVED, DocumentedNumbers, DocumentedShape
from attnsuite.cases.tensors import numbers
from attnsuite.conformance.coverage import cases_by_example, coverage
from attnsuite.contracts.attention import oracle
from attnsuite.contracts.attention.cases import cases
from attnsuite.contracts.attention.cases.case import as_problem
from attnsuite.contracts.attention.cases.documents import KeyGradient, arrays, options, printed_examples
from attnsuite.contracts.attention.contract import CONTRACT, needs
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.kernel_pooling import forty_points
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import QUANTITY_KINDS

Array = np.ndarray[Any, Any]

FIELDS = (
    *("id", "system", "document", "section", "contract", "kind", "inputs", "parameters", "expected"),
    *("printed_decimals", "source", "given", "note", "derived"),
)

CASES = {case.name: case for case in printed_examples()}
PRINTED = {
    name: case
    for name, case in CASES.items()
    if isinstance(case, DocumentedNumbers) and not isinstance(case, KeyGradient)
}
EMPTY_ROW = "doc-001/sdpa-empty-row"


def answer(case: DocumentedNumbers, dtype: str, output: Array) -> Verdict:
    """The verdict on an implementation that returns these numbers."""
    calls = case.calls(dtype)
    tensor = torch.from_numpy(output).to(getattr(torch, dtype))
    return case.verdict(calls, (Reply(tensor),), case.expected(calls, {}))


def honest(case: DocumentedNumbers, dtype: str = "float64") -> Array:
    """The oracle's answer to a call of the case, in the shape of an output."""
    calls = case.calls(dtype)
    query, value = calls[0].tensors["query"], calls[0].tensors["value"]
    (due,) = case.expected(calls, {})
    assert due.form.shape == (*query.shape[:-1], value.shape[-1])
    found: Array = due.numbers
    return found


def due(example: Excerpt, where: str, quantity: str) -> tuple[Array, Array | float]:
    """An expected quantity and how far a computation may lie from it: half a printed unit, or 1e-9 of itself."""
    given = numbers(getattr(example, where)[quantity])
    decimals = example.printed_decimals.get(quantity) if where == "expected" else None
    return given, (1e-9 * abs(given) + 1e-12 if decimals is None else 0.5 * 10.0**-decimals * (1 + 1e-9))


# The file


def test_the_file_holds_every_example_once_with_all_its_fields() -> None:
    loaded = json.loads(documents.FILE.read_text(encoding="utf-8"))

    ids = [example["id"] for example in loaded["examples"]]

    assert len(ids) == len(set(ids)) == len(documents.examples()) == 135
    for example in loaded["examples"]:
        assert set(example) == set(FIELDS), example["id"]
        assert set(example["printed_decimals"]) == set(example["expected"]), example["id"]
        assert example["source"] in ("printed", "derived")
        assert example["given"] in QUANTITY_KINDS
        assert example["kind"] in ("values", "shape", "table", "property")
        assert example["id"].startswith(example["document"] + "/")
        assert example["system"].startswith(example["document"] + "/")


def test_all_five_documents_are_there() -> None:
    assert {example.document for example in documents.examples().values()} == {
        f"doc-{number:03}" for number in range(5)
    }


def test_what_a_document_gives_agrees_with_what_is_said_of_its_numbers() -> None:
    """A quantity with printed decimals is printed; what has no printed decimals is digits only where it is exact."""
    exact = {"doc-003/3.5.1-tril-mask", "doc-004/11.6.3.1-binary"}
    unseeded = {"doc-004/11.7.2-ffn-identical-rows"}
    for id, example in documents.examples().items():
        has_digits = any(decimals is not None for decimals in example.printed_decimals.values())
        assert (example.given == "derived") == (example.source == "derived"), id
        if example.given != "derived":
            assert (example.given == "digits") == ((has_digits and id not in unseeded) or id in exact), id
    assert Counter(example.given for example in documents.examples().values()) == {
        "digits": 27,
        "shapes": 31,
        "derived": 77,
    }


# Which are asked


def test_every_example_is_asked_by_a_case_or_left_out_for_a_reason() -> None:
    for each in coverage():
        assert each.cases or each.reason, each.id
        assert not (each.cases and each.reason), each.id


def test_reasons_are_given_once_and_for_examples_that_exist() -> None:
    given = Counter(id for those in documents.left_out().values() for id in those)

    assert set(given) <= set(documents.examples())
    assert set(given.values()) == {1}
    assert all(reason for those in documents.left_out().values() for reason in those.values())


def test_every_case_of_the_documents_asks_an_example() -> None:
    run = {case.figures.source.example for case in forty_points()}

    assert set(cases_by_example()) - run <= set(documents.examples())


def test_output_and_weights_of_every_asked_example_of_attention_are_asked() -> None:
    for each in coverage():
        example = documents.examples()[each.id]
        if example.contract == "attention" and example.kind == "values" and not each.reason:
            names = {name for cases in each.cases.values() for name in cases}
            for quantity in {"output", "weights"} & set(example.expected):
                assert f"documents/{each.id}/{quantity}" in names


def test_the_cases_of_the_documents_are_cases_of_the_contract() -> None:
    assert set(CASES) == {case.name for case in cases() if case.family == "documents"}


def test_the_table_prints_every_asked_quantity_beside_what_the_oracle_computes() -> None:
    rows = {row.id: row for row in CONTRACT.examples()}

    assert set(rows) == set(CASES)
    for row in rows.values():
        assert row.computed
        if row.printed:
            # a number printed as −0.0 or rounded half to even may differ in how it is written, never in its value
            for printed, computed in zip(row.printed.split(", "), row.computed.split(", "), strict=True):
                assert printed == computed or abs(float(printed) - float(computed)) <= 1.01e-4, row.id


# Digits


@pytest.mark.parametrize("name", PRINTED)
def test_the_oracle_in_float64_reproduces_every_digit(name: str) -> None:
    case = PRINTED[name]
    call = case.calls("float64")[0]

    truth = oracle.attention(as_problem(call, {}), PRECISIONS["float64"], np.float64)

    source = case.figures.source
    example = documents.examples()[source.example]
    for where in ("expected", "derived"):
        if source.quantity in getattr(example, where):
            printed, tolerance = due(example, where, source.quantity)
            found = truth.output.value.reshape(printed.shape)
            rows = slice(1, None) if source.example == EMPTY_ROW else slice(None)
            assert (abs(found - printed) <= tolerance)[..., rows, :].all(), where


@pytest.mark.parametrize("id", sorted({case.figures.source.example for case in PRINTED.values()}))
def test_the_steps_on_the_way_reproduce_every_digit(id: str) -> None:
    example = documents.examples()[id]
    given = arrays(example)
    query, key = given["query"], given["key"]
    scores = query @ key.swapaxes(-1, -2)
    scale = options(example).get("scale", query.shape[-1] ** -0.5)
    call = next(case for case in PRINTED.values() if case.figures.source.example == id).calls("float64")[0]
    weights = oracle.attention(as_problem(call, {}), PRECISIONS["float64"]).weights.reshape(scores.shape)
    found = {"query": query, "key": key, "scores": scores, "scaled_scores": scale * scores, "weights": weights}
    found["row_sums"] = weights.sum(-1)
    if "value" in given:
        found |= {"value": given["value"], "output": weights @ given["value"]}
        found["output_shape"] = np.array(found["output"].shape)
    if example.parameters.get("score"):  # scores by distance: the query's norm drops out of the softmax
        squares = (query[:, None] - key[None]) ** 2
        found |= {"scores": -squares.sum(-1) / 2, "scores_without_query_norm": scores + given["attn_mask"]}
    if "keep_mask" in example.inputs:
        found["masked_scores"] = np.where(given["attn_mask"], scale * scores, example.parameters["mask_fill"])

    rows = slice(1, None) if id == EMPTY_ROW else slice(None)
    for where in ("expected", "derived"):
        for quantity in getattr(example, where):
            printed, tolerance = due(example, where, quantity)
            close = abs(found[quantity].reshape(printed.shape) - printed) <= tolerance
            assert (close[..., rows, :] if close.ndim > 1 else close).all(), (where, quantity)


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_right_digits_pass(name: str, dtype: str) -> None:
    case = PRINTED[name]

    verdict = answer(case, dtype, honest(case, dtype))

    assert verdict.status == "passed", verdict.detail


@pytest.mark.parametrize("name", PRINTED)
def test_one_wrong_digit_in_the_document_would_be_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = PRINTED[name]
    printed, decimals = case.printed, case.figures.decimals
    last = 10.0**-decimals if decimals is not None else None
    output = honest(case)
    true = output.reshape(printed.shape)

    for place in np.ndindex(printed.shape):
        if case.figures.source.example == EMPTY_ROW and place[-2] == 0:
            continue  # the contract decides what an empty row answers
        # away from the true number: half a unit towards it would round to the same digits
        away = -1.0 if true[place] > printed[place] else 1.0
        changed = printed.copy()
        changed[place] += away * (last if last is not None else 3 * DERIVED * abs(printed[place]) + 1e-11)
        monkeypatch.setattr(DocumentedNumbers, "printed", changed)
        verdict = answer(case, "float64", output)
        assert verdict.status == "failed", place
        assert verdict.detail.startswith("the document has another number: output[")


@pytest.mark.parametrize("name", [name for name, case in PRINTED.items() if case.figures.decimals is not None])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_answer_off_by_one_printed_digit_is_wrong(name: str, dtype: str) -> None:
    case = PRINTED[name]
    assert case.figures.decimals is not None
    output = honest(case, dtype)

    for place in np.ndindex(output.shape):
        changed = output.copy()
        changed[place] += 10.0**-case.figures.decimals
        assert answer(case, dtype, changed).status == "failed"


# What the contract decides differently


def test_an_empty_row_follows_the_contract_and_not_the_documents_uniform_fill() -> None:
    case = PRINTED[f"documents/{EMPTY_ROW}/output"]
    assert "empty_row" in needs(case.calls("float64"))
    zeros = honest(case)
    uniform = zeros.copy()
    uniform[0] = case.printed[0]

    assert (zeros[0] == 0).all()
    assert (case.printed[0] != 0).all()
    assert answer(case, "float64", zeros).status == "passed"
    assert answer(case, "float64", uniform).status == "failed"


def test_a_declared_mean_is_held_against_the_documents_uniform_fill() -> None:
    case = PRINTED[f"documents/{EMPTY_ROW}/output"]
    calls = case.calls("float64")
    truth = case.expected(calls, {"empty_row": "mean"})
    uniform = truth[0].numbers
    replies = {"uniform": Reply(torch.from_numpy(uniform)), "zeros": Reply(torch.from_numpy(honest(case)))}

    assert (abs(uniform - case.printed) < 1e-9).all()
    assert case.verdict(calls, (replies["uniform"],), truth).status == "passed"
    assert case.verdict(calls, (replies["zeros"],), truth).status == "failed"


def test_a_matrix_of_zeros_and_ones_is_no_mask() -> None:
    added = PRINTED["documents/doc-000/2-wrong-01-additive-mask/output"]
    causal = PRINTED["documents/doc-000/2.3-library-causal/output"]
    mask = added.calls("float64")[0].tensors["attn_mask"]

    assert mask.dtype == torch.float64
    assert set(mask.unique().tolist()) == {0.0, 1.0}
    assert answer(added, "float64", honest(causal)).status == "failed"
    assert answer(causal, "float64", honest(added)).status == "failed"


def test_a_mask_by_minus_infinity_equals_is_causal_whatever_it_adds_elsewhere() -> None:
    for quantity in ("output", "weights"):
        masked, causal = (
            honest(PRINTED[f"documents/doc-000/{id}/{quantity}"])
            for id in ("2.1-manual-additive-mask", "2.3-library-causal")
        )
        assert abs(masked - causal).max() < 1e-15


def test_a_keep_mask_is_boolean_and_true_may_attend() -> None:
    mask = PRINTED["documents/doc-001/sdpa-keep-mask/output"].calls("float32")[0].tensors["attn_mask"]

    assert mask.tolist() == [[True, True, False], [True, False, True]]


def test_printed_digits_are_compared_in_float32_and_float64_only() -> None:
    usual = [case for case in CASES.values() if not isinstance(case, KeyGradient)]

    assert all(case.dtypes == ("float64", "float32") for case in usual)
    assert len(usual) == len(CASES) - 1, "one derivative is below what float32 holds"


def test_a_scale_of_one_over_the_root_of_the_width_is_left_to_the_default() -> None:
    assert CASES["documents/doc-000/1.1-library-default/output"].calls("float64")[0].options == {}
    assert CASES["documents/doc-000/1.2-unscaled/output"].calls("float64")[0].options == {"scale": 1.0}
    assert CASES["documents/doc-000/2.3-library-causal/output"].calls("float64")[0].options == {"is_causal": True}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if isinstance(case, DocumentedShape)])
def test_an_unseeded_example_keeps_its_shape_and_its_zeros(name: str) -> None:
    case = CASES[name]
    assert isinstance(case, DocumentedShape)
    assert case.source is not None
    example = documents.examples()[case.source.example]
    calls = case.calls("float64")
    truth = case.expected(calls, {})
    output = torch.from_numpy(truth[0].numbers)
    assert tuple(output.shape) == example.output_shape

    for tensor, key in ((calls[0].tensors[name], f"{name}_shape") for name in ("query", "key", "value")):
        assert list(tensor.shape) == example.inputs[key]
    if lengths := example.inputs.get("valid_lens"):
        assert calls[0].tensors["attn_mask"].sum(-1).flatten().tolist() == lengths
    assert case.verdict(calls, (Reply(output),), truth).status == "passed"
    assert case.verdict(calls, (Reply(output.mT.contiguous()),), truth).status == "failed"
