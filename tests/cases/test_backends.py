"""The calls of a backend are judged, and complaints name the first difference."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import case_named

import attnsuite
from attnsuite.cases.backends import BackendCall, ExpectedBackendCall
from attnsuite.contracts import contract
from attnsuite.worker.calling import run_calls

EXPECTED = ExpectedBackendCall((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 6), "float32")
SHAPES = {"query": [2, 4, 3, 8], "key": [2, 4, 5, 8], "value": [2, 4, 5, 6]}
CALL = BackendCall(SHAPES, dict.fromkeys(SHAPES, "float32"))
FIRST_TWO = np.arange(5) < 2


def seen(keys: np.ndarray, rows: int = 24) -> str:
    return "".join("01"[int(key)] for key in keys) * rows


def test_an_expected_call_has_no_complaint() -> None:
    padded = replace(EXPECTED, hides="padding", may_attend=FIRST_TWO)
    hidden = replace(CALL, options={"attn_mask": "bool"}, seen=seen(FIRST_TWO))

    assert EXPECTED.complaint(CALL) is None
    assert padded.complaint(hidden) is None
    assert padded.complaint(replace(hidden, options={"is_causal": True})) is None, "by whichever argument"
    assert replace(EXPECTED, dropout_p=0.5).complaint(replace(CALL, options={"dropout_p": 0.5})) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            replace(CALL, shapes=SHAPES | {"query": [8, 1, 3, 8]}),
            "query is 8 × 1 × 3 × 8, expected 2 × 4 × 3 × 8: items, heads, rows, width",
        ),
        (replace(CALL, dtypes=CALL.dtypes | {"key": "float64"}), "key is float64, expected float32"),
        (replace(CALL, options={"scale": 0.5}), "scale is given, 0.5, which the backend chooses itself"),
        (replace(CALL, options={"attn_mask": None}), "attn_mask is given, None, where nothing needs it"),
        (replace(CALL, options={"attn_mask": "bool"}), "attn_mask is given, which hides nothing"),
        (replace(CALL, options={"attn_mask": "float32"}), "attn_mask is float32, expected bool"),
        (replace(CALL, options={"dropout_p": 0.1}), "dropout_p is 0.1, expected none"),
        (
            replace(CALL, options={"attn_mask": "bool", "is_causal": True}),
            "attn_mask and is_causal are both given, which together are undefined",
        ),
        (
            replace(CALL, options={"attn_mask": "bool"}, seen=seen(FIRST_TWO)),
            "48 of 120 pairs of query and key are seen, expected 120; the first that is wrongly hidden is [0, 0, 0, 2]",
        ),
    ],
)
def test_a_complaint_names_what_differs(call: BackendCall, message: str) -> None:
    assert EXPECTED.complaint(call) == message


def test_missing_masks_and_dropout_are_named() -> None:
    padded = replace(EXPECTED, hides="padding", may_attend=FIRST_TWO)

    assert padded.complaint(CALL) == "nothing is hidden from it, although it should hide padding"
    assert replace(EXPECTED, dropout_p=0.5).complaint(CALL) == "dropout_p is not given, expected 0.5"


def test_a_cache_may_have_spare_keys_if_they_are_hidden() -> None:
    cached = replace(EXPECTED, key=(2, 4, 2, 8), value=(2, 4, 2, 6), spare_keys=True)
    hidden = replace(CALL, options={"attn_mask": "bool"}, seen=seen(FIRST_TWO))

    assert cached.complaint(hidden) is None
    assert cached.complaint(CALL) == "nothing is hidden from it, although it should hide the spare keys"
    assert replace(cached, spare_keys=False).complaint(hidden) == (
        "key is 2 × 4 × 5 × 8, expected 2 × 4 × 2 × 8: items, heads, rows, width"
    )


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"shapes": 1, "dtypes": 2}', '{"shapes": {}, "dtypes": {}}', "NaN"])
def test_a_malformed_record_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        BackendCall.read(line)
    assert BackendCall.read(CALL.written()) == CALL


CALLED = "the backend is"
FIRST = "of the backend:"


@pytest.mark.parametrize(
    ("of", "name", "case", "message"),
    [
        ("multi_head_attention", "ignores_the_plug", "plug/called", f"{CALLED} not called, expected 1"),
        ("multi_head_attention", "plug_scaled_twice", "plug/called", 'equals "plug_scaled_twice": queries are divided'),
        ("transformer", "plug_without_padding", "plug/called", f"call 1 of 6 {FIRST} nothing is hidden from it"),
        ("transformer", "plugged_into_self_attention_alone", "cached/plugged", f"{CALLED} called 4 times, expected 6"),
        ("vision_transformer", "plug_given_dropout", "plug/called", "dropout_p is 0.1, expected none"),
    ],
)  # fmt: skip
def test_a_wrong_call_of_the_backend_is_named(of: str, name: str, case: str, message: str) -> None:
    mutant = next(mutant for mutant in contract(of).mutants() if mutant.name == name)

    (outcome,) = attnsuite.check(mutant.function, contract=of, cases=case, dtypes="float32")

    assert outcome.status == "failed"
    assert message in outcome.detail


def test_an_error_in_the_backend_is_an_error_of_the_function() -> None:
    def bends_the_mask(query: Any, key: Any, value: Any, *others: Any, attention: Any, **options: Any) -> Any:
        return attention(query[:, None], key[:, None], value[:, None], attn_mask=query)

    case = case_named("multi_head_attention", "plug/called")
    calls = case.calls("float32")
    replies = run_calls(bends_the_mask, calls)

    assert case.verdict(calls, replies, case.expected(calls, {})).status == "error"
