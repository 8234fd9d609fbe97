"""The combined cases of attention: the array, its cases, and the mutants that they kill."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from attnsuite.cases.contract import QUICK
from attnsuite.cases.covering import met_in
from attnsuite.conformance.audit import killed_by
from attnsuite.contracts import contract
from attnsuite.contracts.attention.cases import combined
from attnsuite.contracts.attention.cases.combined import SPACE
from attnsuite.contracts.attention.computation.call import as_attention
from attnsuite.contracts.attention.computation.forward import Dense

ARRAY = combined.array()
ROWS = ARRAY.rows()
CONTRACT = contract("attention")
correct = as_attention(Dense())


@pytest.mark.parametrize("fused", [False, True])
def test_the_array_that_is_kept_is_whole(fused: bool) -> None:
    assert not SPACE.coverage(ROWS, fused).unmet


def test_the_quick_profile_has_every_pair_and_less_than_the_full_one() -> None:
    quick = ARRAY.rows("quick")
    assert not SPACE.coverage(quick, fused=False).unmet
    assert quick == ROWS[: len(quick)]
    assert len(quick) < len(ROWS)


def test_a_case_is_named_after_the_unusual_levels_of_its_row() -> None:
    row = SPACE.read("several_tiles+one_head+e65+causal+window_left+bfloat16")
    case: Any = combined.case(row)
    (call,) = case.calls("bfloat16")
    assert case.name == "combined/several_tiles+one_head+e65+bfloat16+causal+window_left"
    assert call.tensors["query"].shape == (1, 1, 100, 65)
    assert call.options == {"is_causal": True, "window": (42, 0)}
    assert case.dtypes == ("bfloat16",)


def test_layouts_and_modes_reach_the_call() -> None:
    levels = "several_tiles+one_head+k_column_major+no_grad+float_mask+ls+random+mask_column_major"
    case: Any = combined.case(SPACE.read(levels))
    (call,) = case.calls("float64")
    assert call.tensors["key"].stride()[-2:] == (1, 140)
    assert call.tensors["attn_mask"].stride() == (1, 100)
    assert not call.grad_mode


def test_dropout_is_read_off_values_that_are_the_identity() -> None:
    case: Any = combined.case(SPACE.read("square_v+identity_values+dropout+float32"))
    call = case.calls("float32")[0]
    assert call.options["dropout_p"] == 0.4
    assert torch.equal(call.tensors["value"][0, 0], torch.eye(7))


def test_another_seed_draws_another_array_that_is_whole() -> None:
    rows = ARRAY.rows("quick", 1)
    assert not SPACE.coverage(rows, fused=False).unmet
    assert rows != ARRAY.rows("quick")


def test_a_row_that_fails_a_right_computation_catches_nothing() -> None:
    wrong = replace(CONTRACT, controls=lambda: {"doubled": lambda *inputs, **options: 2 * correct(*inputs, **options)})
    assert killed_by(wrong, SPACE.read("causal+float32")) == frozenset()


@pytest.mark.parametrize("lacked", combined.LACKING, ids=",".join)
@pytest.mark.parametrize("seed", [0, 1])
def test_without_what_implementations_lack_every_other_pair_meets(lacked: tuple[str, ...], seed: int) -> None:
    usual = {
        name: SPACE.usual[name] for part in combined.ALL_LEVELS if part.unsupported in lacked for name in part.factors
    }
    assert usual, "these words name no feature"
    rows = [row for row in ARRAY.rows(QUICK, seed) if usual.items() <= row.items()]
    unmet = SPACE.meetings(fused=False).difference(*(met_in(row, fused=False) for row in rows))
    assert not [met for met in unmet if usual.keys().isdisjoint(dict(met)) and SPACE.completes({**dict(met), **usual})]


def test_every_word_of_what_implementations_lack_names_a_feature() -> None:
    assert {word for lacked in combined.LACKING for word in lacked} == {
        part.unsupported for part in combined.ALL_LEVELS if part.unsupported
    }


def test_a_case_is_made_of_its_name_alone() -> None:
    (case,) = ARRAY.named(["combined/e65+causal"]) or ()
    assert case.name == "combined/e65+causal"
    assert ARRAY.named(["combined/*"]) is None
    assert ARRAY.named(["plain/e65+causal"]) is None
    assert ARRAY.named(["combined/e65+no_such_level"]) is None
