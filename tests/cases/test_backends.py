"""How an attention that was plugged in is called is judged, and said in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attnsuite
from attnsuite.cases.backends import BackendCall, ExpectedBackendCall
from attnsuite.contracts import contract
from attnsuite.model import Outcome
from attnsuite.worker import ask

DUE = ExpectedBackendCall((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 6), "float32")
SHAPES = {"query": [2, 4, 3, 8], "key": [2, 4, 5, 8], "value": [2, 4, 5, 6]}
GIVEN = BackendCall(SHAPES, dict.fromkeys(SHAPES, "float32"))
FIRST_TWO = np.arange(5) < 2


def seen(keys: np.ndarray, rows: int = 24) -> str:
    return "".join("01"[int(key)] for key in keys) * rows


def deviation(of: str, name: str) -> Callable[..., Any]:
    (found,) = (each for each in contract(of).mutants() if each.name == name)
    return found.function


def outcome(of: str, name: str, case: str) -> Outcome:
    (found,) = attnsuite.check(deviation(of, name), contract=of, cases=case, dtypes="float32")
    return found


def test_a_call_that_is_as_due_is_not_accused() -> None:
    padded = replace(DUE, hides="padding", may_attend=FIRST_TWO)
    hidden = replace(GIVEN, options={"attn_mask": "bool"}, seen=seen(FIRST_TWO))

    assert DUE.complaint(GIVEN) is None
    assert padded.complaint(hidden) is None
    assert padded.complaint(replace(hidden, options={"is_causal": True})) is None, "by whichever argument"
    assert replace(DUE, dropout_p=0.5).complaint(replace(GIVEN, options={"dropout_p": 0.5})) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            replace(GIVEN, shapes=SHAPES | {"query": [8, 1, 3, 8]}),
            "query is 8 × 1 × 3 × 8, due is 2 × 4 × 3 × 8: items, heads, rows, width",
        ),
        (replace(GIVEN, dtypes=GIVEN.dtypes | {"key": "float64"}), "key is float64, due is float32"),
        (replace(GIVEN, options={"scale": 0.5}), "scale is given, 0.5, which is the plug's own to choose"),
        (replace(GIVEN, options={"attn_mask": None}), "attn_mask is given, None, where nothing needs it"),
        (replace(GIVEN, options={"attn_mask": "bool"}), "attn_mask is given, which hides nothing"),
        (replace(GIVEN, options={"attn_mask": "float32"}), "attn_mask is float32, due is bool"),
        (replace(GIVEN, options={"dropout_p": 0.1}), "dropout_p is 0.1, due is none"),
        (
            replace(GIVEN, options={"attn_mask": "bool", "is_causal": True}),
            "attn_mask and is_causal are both given, which together are undefined",
        ),
        (
            replace(GIVEN, options={"attn_mask": "bool"}, seen=seen(FIRST_TWO)),
            "48 of 120 pairs of query and key are seen, due are 120; the first that is wrongly hidden is [0, 0, 0, 2]",
        ),
    ],
)
def test_a_call_that_is_not_as_due_is_accused_in_words(given: BackendCall, said: str) -> None:
    assert DUE.complaint(given) == said


def test_what_is_not_hidden_or_not_dropped_is_said() -> None:
    padded = replace(DUE, hides="padding", may_attend=FIRST_TWO)

    assert padded.complaint(GIVEN) == "nothing is hidden from it, due is to hide padding"
    assert replace(DUE, dropout_p=0.5).complaint(GIVEN) == "dropout_p is not given, due is 0.5"


def test_a_cache_may_have_room_if_it_is_hidden() -> None:
    cached = replace(DUE, key=(2, 4, 2, 8), value=(2, 4, 2, 6), spare_keys=True)
    hidden = replace(GIVEN, options={"attn_mask": "bool"}, seen=seen(FIRST_TWO))

    assert cached.complaint(hidden) is None
    assert cached.complaint(GIVEN) == "nothing is hidden from it, due is to hide the spare keys"
    assert replace(cached, spare_keys=False).complaint(hidden) == (
        "key is 2 × 4 × 5 × 8, due is 2 × 4 × 2 × 8: items, heads, rows, width"
    )


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"shapes": 1, "dtypes": 2}', '{"shapes": {}, "dtypes": {}}', "NaN"])
def test_what_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        BackendCall.read(line)
    assert BackendCall.read(GIVEN.written()) == GIVEN


CALLED = "the attention that was plugged in is"
FIRST = "of the attention that was plugged in:"


@pytest.mark.parametrize(
    ("of", "name", "case", "said"),
    [
        ("multi_head_attention", "ignores_the_plug", "plug/called", f"{CALLED} not called, due is 1"),
        ("multi_head_attention", "plug_called_head_by_head", "plug/called", f"{CALLED} called 2 times, due is 1"),
        ("multi_head_attention", "plug_without_dropout", "dropout/plugged", "dropout_p is not given, due is 0.4"),
        (
            "multi_head_attention",
            "plug_without_causal",
            "causal/plugged",
            "hide what comes after a query, as is_causal",
        ),
        ("multi_head_attention", "plug_given_heads_as_items", "plug/called", f"call 1 of 1 {FIRST} query is 4 × 1 × 5"),
        ("multi_head_attention", "plug_scaled_twice", "plug/called", 'equals "plug_scaled_twice": queries are divided'),
        (
            "multi_head_attention",
            "plug_unused",
            "plug/called",
            'equals "plug_unused": the attention that is plugged in',
        ),
        (
            "transformer",
            "plug_without_padding",
            "plug/called",
            f"call 1 of 6 {FIRST} nothing is hidden from it, due is",
        ),
        ("transformer", "plug_without_causal", "plug/called", f"call 3 of 6 {FIRST} nothing is hidden from it, due is"),
        (
            "transformer",
            "plugged_into_self_attention_alone",
            "cached/plugged",
            f"{CALLED} called 4 times, due is 6 or 22",
        ),
        ("transformer", "plug_given_idle_mask", "plug/whole", f"call 1 of 6 {FIRST} attn_mask is given, which hides"),
        ("vision_transformer", "plug_given_idle_mask", "plug/called", "attn_mask is given, which hides nothing"),
        ("vision_transformer", "plug_called_twice", "plug/called", f"{CALLED} called 4 times, due is 2"),
        ("vision_transformer", "plug_given_dropout", "plug/called", "dropout_p is 0.1, due is none"),
    ],
)
def test_a_host_is_told_what_is_wrong_with_its_calls(of: str, name: str, case: str, said: str) -> None:
    found = outcome(of, name, case)

    assert found.status == "wrong"
    assert said in found.detail


def test_an_attention_that_raises_is_the_hosts_answer() -> None:
    def bends_the_mask(query: Any, key: Any, value: Any, *given: Any, attention: Any, **options: Any) -> Any:
        return attention(query[:, None], key[:, None], value[:, None], attn_mask=query)

    case = next(each for each in contract("multi_head_attention").cases() if each.name == "plug/called")
    calls = case.calls("float32")
    replies = ask(bends_the_mask, calls)

    assert case.verdict(calls, replies, case.expected(calls, {})).status == "raised"
