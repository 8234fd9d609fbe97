"""The smallest failing call, as it is written in plain torch: it says what the oracle says, of every feature."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attnsuite.cases import Call
from attnsuite.cases.call import Reply
from attnsuite.contracts.attention.cases.case import AttentionCase, expected_result
from attnsuite.contracts.attention.computation.call import as_attention
from attnsuite.contracts.attention.computation.forward import Dense
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.contracts.attention.reproduction import reproducing, seed_of, seeded
from attnsuite.judging import compare
from attnsuite.worker.calling import run_calls

SMALL: dict[str, Any] = {"batch": 1, "heads": 2, "queries": 3, "keys": 4, "width": 2}
attention = as_attention(Dense())


def printed(call: Call, reply: Reply | None = None) -> dict[str, Any]:
    """The variables after the lines ran with a right attention."""
    (result,) = run_calls(attention, (call,)) if reply is None else (reply,)
    lines = reproducing().script(call, result, expected_result(call, {}), {})
    assert lines
    known: dict[str, Any] = {"torch": torch, "attention": attention}
    with contextlib.redirect_stdout(io.StringIO()):
        exec("\n".join(lines), known)
    return known


@pytest.mark.parametrize(
    "unusual",
    [
        pytest.param({}, id="plain"),
        pytest.param({"scale": -0.4}, id="scale"),
        pytest.param({"scale": 0.0, "causal": True}, id="causal"),
        pytest.param({"heads": 4, "key_heads": 2}, id="grouped"),
        pytest.param({"mask": Mask()}, id="boolean mask"),
        pytest.param({"mask": Mask("float", axes="ls")}, id="float mask"),
        pytest.param({"mask": Mask(pattern="empty_rows")}, id="empty rows"),
        pytest.param({"window": (1, 0)}, id="window"),
        pytest.param({"window": (None, 1), "causal": True}, id="window and causal"),
        pytest.param({"dropout_p": 1.0}, id="certain dropout"),
        pytest.param({"dropout_p": 0.0}, id="no dropout"),
        pytest.param({"keys": 0}, id="no keys"),
        pytest.param({"rank": 2, "heads": 1}, id="rank 2"),
        pytest.param({"rank": 2, "heads": 1, "key_heads": 1}, id="groups in rank 2"),
        pytest.param({"layout": {"key": "column_major", "value": "expanded", "query": "sliced"}}, id="layouts"),
        pytest.param({"queries": 20, "keys": 30}, id="large"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_expected_output_is_the_oracle_s(unusual: dict[str, Any], dtype: str) -> None:
    call = AttentionCase("test/reproduction", "", **(SMALL | unusual)).call(dtype)
    if "queries" in unusual:
        call = seeded(call, 0)

    known = printed(call)

    expected = expected_result(call, {})
    assert compare.difference(known["expected"].numpy(), expected.numbers, expected.slack) is None
    assert torch.equal(known["query"], call.tensors["query"])
    assert 0 in known["key"].shape or known["key"].stride() == call.tensors["key"].stride()


@pytest.mark.parametrize("unusual", [{}, {"mask": Mask(pattern="empty_rows")}, {"heads": 4, "key_heads": 2}])
@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_a_gradient_is_that_of_the_oracle(name: str, unusual: dict[str, Any]) -> None:
    call = AttentionCase("test/reproduction", "", gradient_of=(name,), **(SMALL | unusual)).call("float32")
    (reply,) = run_calls(attention, (call,))
    off = Reply(reply.output, gradients={name: reply.gradients[name] + 1})  # type: ignore[operator]

    known = printed(call, off)

    bounded = expected_result(call, {}).gradients[name]
    assert np.allclose(known["expected"].numpy(), bounded.value.astype(np.float64), atol=1e-5)
    assert np.allclose(known["actual"].numpy(), bounded.value.astype(np.float64), atol=1e-4)


def test_an_input_that_requires_a_gradient_still_does_in_the_lines() -> None:
    call = replace(AttentionCase("test/reproduction", "", **SMALL).call("float32"), requires_gradient=("key",))

    known = printed(call)

    assert [known[name].requires_grad for name in ("query", "key", "value")] == [False, True, False]
    assert any(not candidate.requires_gradient for candidate in simpler(call))


def test_what_is_dropped_by_chance_cannot_be_written() -> None:
    call = AttentionCase("test/reproduction", "", dropout_p=0.5, **SMALL).call("float32")

    assert reproducing().script(call, Reply(torch.zeros(1, 2, 3, 2)), expected_result(call, {}), {}) == ()


def simpler(call: Call) -> Iterator[Call]:
    return (candidate for respect in reproducing().simplifications for candidate in respect(call))


def test_what_is_simpler_is_still_a_call_that_attention_takes() -> None:
    case = AttentionCase(
        "test/reproduction", "", heads=4, key_heads=2, mask=Mask("float"), gradient_of=("query", "attn_mask"),
        layout={"key": "strided"},
    )  # fmt: skip

    for candidate in simpler(case.call("float32")):
        if candidate.options.get("enable_gqa") or candidate.tensors["query"].shape[1] == 2:
            (reply,) = run_calls(attention, (candidate,))
            assert not reply.error
            assert expected_result(candidate, {}).verdict(reply).detail == ""


def test_as_many_queries_as_keys_become_fewer_together() -> None:
    call = AttentionCase("test/reproduction", "", queries=7, keys=7, mask=Mask(axes="ls")).call("float32")

    shapes = {
        tuple(candidate.tensors["attn_mask"].shape) for candidate in simpler(call) if "attn_mask" in candidate.tensors
    }

    assert {(1, 1), (3, 3), (6, 6), (1, 7), (7, 1)} <= shapes


def test_numbers_of_a_seed_are_known_again() -> None:
    call = AttentionCase("test/reproduction", "", queries=9, keys=9).call("float32")

    assert seed_of(call) is None
    assert seed_of(seeded(call, 1)) == 1
