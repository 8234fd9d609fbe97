"""The source documents' examples: complete, reproduced digit by digit, and able to fail."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest
import torch
from builders import case_named

from attnsuite.cases import Reply
from attnsuite.cases.documented import DERIVED, DocumentedNumbers, DocumentedShape
from attnsuite.conformance.coverage import Coverage, cases_by_example, coverage
from attnsuite.contracts.attention.cases.documents import KeyGradient, printed_examples
from attnsuite.contracts.sources import documents
from attnsuite.contracts.steps.kernel_pooling import forty_points
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


def verdict_on(case: DocumentedNumbers, dtype: str, output: Array) -> Verdict:
    calls = case.calls(dtype)
    tensor = torch.from_numpy(output).to(getattr(torch, dtype))
    return case.verdict(calls, (Reply(tensor),), case.expected(calls, {}))


def oracle_output(case: DocumentedNumbers, dtype: str = "float64") -> Array:
    calls = case.calls(dtype)
    query, value = calls[0].tensors["query"], calls[0].tensors["value"]
    (expected,) = case.expected(calls, {})
    assert expected.form.shape == (*query.shape[:-1], value.shape[-1])
    output: Array = expected.numbers
    return output


# The file


def test_the_file_holds_every_example_once_with_all_its_fields() -> None:
    loaded = json.loads(documents.FILE.read_text(encoding="utf-8"))

    ids = [example["id"] for example in loaded["examples"]]

    assert len(ids) == len(set(ids)) == len(documents.examples()) == 135
    assert {example["document"] for example in loaded["examples"]} == {f"doc-{number:03}" for number in range(5)}
    for example in loaded["examples"]:
        assert set(example) == set(FIELDS), example["id"]
        assert set(example["printed_decimals"]) == set(example["expected"]), example["id"]
        assert example["source"] in ("printed", "derived")
        assert example["given"] in QUANTITY_KINDS
        assert example["kind"] in ("values", "shape", "table", "property")
        assert example["id"].startswith(example["document"] + "/")
        assert example["system"].startswith(example["document"] + "/")


def test_the_kind_of_an_example_agrees_with_its_printed_decimals() -> None:
    """Numbers with printed decimals are digits; without, they are digits only if they are exact."""
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


# Coverage


def test_every_example_has_a_case_or_a_reason_for_having_none() -> None:
    for example in coverage():
        assert bool(example.cases) != bool(example.reason), example.id


def test_reasons_are_given_once_and_for_examples_that_exist() -> None:
    reasons = Counter(id for section in documents.left_out().values() for id in section)

    assert set(reasons) <= set(documents.examples())
    assert set(reasons.values()) == {1}
    assert all(reason for section in documents.left_out().values() for reason in section.values())


def test_every_quantity_of_an_example_with_cases_is_compared_or_has_a_reason() -> None:
    lacking = [f"{each.id}/{name}" for each in coverage() for name, reason in each.not_compared.items() if not reason]

    assert lacking == []
    assert all(each.is_covered for each in coverage() if each.cases)


def test_an_example_without_one_of_its_quantities_is_not_covered() -> None:
    example = Coverage("doc-000/1.2-scores", {"attention": ("documents/doc-000/1.2-scores",)})

    assert example.is_covered
    assert not replace(example, not_compared={"weights": ""}).is_covered
    assert replace(example, not_compared={"weights": "printed without a seed"}).is_covered


def test_each_reason_is_that_of_a_quantity_without_a_case() -> None:
    others = [f"{each.id}/{name}" for each in coverage() for name in each.not_compared]

    for pattern, reason in documents.quantities_left_out().items():
        assert reason
        assert any(fnmatchcase(name, pattern) for name in others), pattern


def test_at_most_eight_parts_of_the_documents_are_out_of_scope() -> None:
    assert len(documents.out_of_scope()) <= 8


PARAMETERS = {
    ("additive_attention", "doc-004/11.3.4-additive-shape", "num_parameters"): r"w_",
    ("multi_head_attention", "doc-004/11.5.2-mha-shape", "num_parameters"): r"w_",
    ("seq2seq_attention", "doc-004/11.4.2-decoder-shapes", "encoder_parameters"): r"source_embedding|encoder",
    (
        "seq2seq_attention",
        "doc-004/11.4.2-decoder-shapes",
        "decoder_parameters",
    ): r"target_|decoder|attention|[wb]_logits",
    ("transformer", "doc-004/11.7.4-encoder-block-shape", "num_parameters"): r"encoder",
    ("transformer", "doc-004/11.7.4-encoder-shape", "num_parameters"): r"source_embedding|encoder",
    ("transformer", "doc-004/11.7.5-decoder-block-shape", "num_parameters"): r"decoder",
    ("vision_transformer", "doc-004/11.8.3-block-shape", "num_parameters"): r"blocks",
}
"""By contract, example and quantity, the beginnings of the names of the counted weights."""


@pytest.mark.parametrize(("name", "id", "quantity"), PARAMETERS)
def test_weights_have_as_many_numbers_as_the_documents_count(name: str, id: str, quantity: str) -> None:
    case = case_named(name, f"documents/{id}")
    call = case.calls("float64")[0]

    weights = {**call.tensors, **(call.weights or {})}
    counted = [tensor.numel() for weight, tensor in weights.items() if re.match(PARAMETERS[name, id, quantity], weight)]

    assert sum(counted) == documents.examples()[id].derived[quantity]


@pytest.mark.parametrize(
    "name", ["doc-003/3.4.1-query-2/queries_shape", "doc-003/3.6.2-multi-head-split/context_shape_merged"]
)
def test_a_shape_is_that_of_the_submission_s_own_output(name: str) -> None:
    case = case_named("multi_head_attention", f"documents/{name}")
    calls = case.calls("float64")
    expected = case.expected(calls, {})
    output = torch.from_numpy(expected[0].numbers)

    assert case.verdict(calls, (Reply(output),), expected).status == "passed"
    assert case.verdict(calls, (Reply(output.reshape(*output.shape[:2], 2, -1)),), expected).status == "failed"


def test_every_case_of_the_documents_has_an_example() -> None:
    run = {case.figures.source.example for case in forty_points()}

    assert set(cases_by_example()) - run <= set(documents.examples())


# Digits


@pytest.mark.parametrize("name", PRINTED)
def test_every_digit_of_the_document_is_compared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = PRINTED[name]
    printed, decimals = case.printed, case.figures.decimals
    last = 10.0**-decimals if decimals is not None else None
    output = oracle_output(case)
    computed = output.reshape(printed.shape)

    assert verdict_on(case, "float64", output).status == "passed"
    for place in np.ndindex(printed.shape):
        if case.figures.source.example == EMPTY_ROW and place[-2] == 0:
            continue  # the contract defines the output of an empty row
        # away from the computed number: half a unit towards it would round to the same digits
        away = -1.0 if computed[place] > printed[place] else 1.0
        changed = printed.copy()
        changed[place] += away * (last if last is not None else 3 * DERIVED * abs(printed[place]) + 1e-11)
        monkeypatch.setattr(DocumentedNumbers, "printed", changed)
        verdict = verdict_on(case, "float64", output)
        assert verdict.status == "failed", place
        assert verdict.detail.startswith("the document has another number: output[")


# Masks, scales and shapes


def test_a_matrix_of_zeros_and_ones_is_no_mask() -> None:
    added = PRINTED["documents/doc-000/2-wrong-01-additive-mask/output"]
    causal = PRINTED["documents/doc-000/2.3-library-causal/output"]
    mask = added.calls("float64")[0].tensors["attn_mask"]

    assert mask.dtype == torch.float64
    assert set(mask.unique().tolist()) == {0.0, 1.0}
    assert verdict_on(added, "float64", oracle_output(causal)).status == "failed"
    assert verdict_on(causal, "float64", oracle_output(added)).status == "failed"


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
    expected = case.expected(calls, {})
    output = torch.from_numpy(expected[0].numbers)
    assert tuple(output.shape) == example.output_shape

    for tensor, key in ((calls[0].tensors[name], f"{name}_shape") for name in ("query", "key", "value")):
        assert list(tensor.shape) == example.inputs[key]
    if lengths := example.inputs.get("valid_lens"):
        assert calls[0].tensors["attn_mask"].sum(-1).flatten().tolist() == lengths
    assert case.verdict(calls, (Reply(output),), expected).status == "passed"
    assert case.verdict(calls, (Reply(output.mT.contiguous()),), expected).status == "failed"
