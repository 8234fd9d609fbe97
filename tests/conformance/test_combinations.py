"""What the audit says of the cases that combine features."""

from __future__ import annotations

import pytest

from attnsuite.cases.contract import LocalMutant
from attnsuite.conformance import combinations
from attnsuite.conformance.combinations import array_of, seen_in
from attnsuite.contracts.attention.cases.combined import SPACE
from attnsuite.model import Combinations, Meetings, UsageError


def test_a_mistake_is_caught_where_levels_meet_in_a_row_that_catches_it() -> None:
    rows = [{"a": "a1", "b": "b1"}, {"a": "a2", "b": "b1"}]
    seen = seen_in(rows, [frozenset({"slip"}), frozenset()], fused=False)
    assert seen == {"slip": {(("a", "a1"), ("b", "b1"))}}


@pytest.mark.slow
def test_mistakes_of_gradients_are_made_where_gradients_are_asked() -> None:
    local = LocalMutant(None, frozenset({"dq", "dqkv"}))  # type: ignore[arg-type]
    assert local.made_in(["e8", "dqkv"])
    assert not local.made_in(["e8", "dv"])
    wanted = array_of("attention").wrong_only_where(fused=False)
    assert (("gradient", "dq"), ("width", "e65")) in wanted["gradient_of_query_loses_a_number"]
    assert (("gradient", "dv"), ("width", "e65")) not in wanted["gradient_of_query_loses_a_number"]
    assert (("gradient", "dv"), ("width", "e65")) in wanted["one_query_loses_a_key"]


@pytest.mark.slow
def test_what_no_row_catches_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = frozenset({"one_query_loses_a_key"})
    monkeypatch.setattr(combinations, "caught_in", lambda name, rows, jobs: [blind] * len(rows))
    found = combinations.combinations("attention", 1)
    assert found is not None
    assert found.pairs.met == found.pairs.possible
    assert not any(each.startswith("one_query_loses_a_key") for each in found.pairs.missed)
    assert "last_column_is_not_written causal × e65" in found.pairs.missed
    assert found.amiss[0] in found.pairs.missed


def test_all_pairs_have_to_be_caught_and_nearly_all_triples() -> None:
    few, many = ("slip a × b",), tuple(f"slip {number}" for number in range(6))
    assert not Combinations(1, 2, Meetings(9, 9, 100), Meetings(9, 9, 100, many[:5])).amiss
    assert Combinations(1, 2, Meetings(9, 9, 100, few), Meetings(9, 9, 100)).amiss == list(few)
    assert Combinations(1, 2, Meetings(9, 9, 100), Meetings(9, 9, 100, many)).amiss == list(many)


def test_a_contract_without_combinations_has_none() -> None:
    assert combinations.combinations("add_norm", 1) is None
    with pytest.raises(UsageError, match="add_norm has no cases that combine features"):
        array_of("add_norm")


def test_the_space_is_named_after_what_it_combines() -> None:
    assert {"size", "width", "mask", "causal", "window", "gradient", "dtype"} <= set(SPACE.factors)
