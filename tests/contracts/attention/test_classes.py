"""Mistakes that no single small call shows: each is killed by the case made for it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from attnsuite.cases import Case, Mutant
from attnsuite.conformance import audit
from attnsuite.contracts.attention.cases import cases
from attnsuite.contracts.attention.cases.case import expected_result
from attnsuite.contracts.attention.cases.several_calls import RepeatedCall, SharedTensor
from attnsuite.contracts.attention.contract import NOT_TESTED, page
from attnsuite.contracts.attention.mutants import CONTROLS, mutants
from attnsuite.judging.verdicts import Verdict
from attnsuite.worker import run_calls

FAMILIES = ("order", "threads", "state", "roles", "lengths", "gradient_numerics")
"""Those that ask nothing but such classes."""
CAUGHT = {
    "shares_workspace_between_calls": "order/first_goes_back_first",
    "shares_dropout_state_between_calls": "order/dropout",
    "goes_back_with_the_last_scale": "order/other_options_between",
    "keeps_memory_in_its_thread": "order/backward_in_another_thread",
    "backward_drops_anew_when_grouped": "dropout/gradient_grouped",
    "backward_drops_anew_for_one_query": "dropout/gradient_one_query",
    "spoils_memory_in_backward": "order/twice",
    "hands_out_gradients_in_reused_buffers": "order/gradients_outlive_calls",
    "leaves_generator_turned_back": "dropout/backward_between",
    "turns_generator_back_in_backward": "dropout/successive_training",
    "holds_generator_in_training": "dropout/successive_training",
    "ignores_dropout_for_one_query": "dropout/kept_one_query",
    "ignores_dropout_without_grad_mode": "dropout/kept_without_grad_mode",
    "drops_more_rarely_beside_hidden_keys": "dropout/drawn_masked",
    "drops_alike_in_a_group": "dropout/drawn_grouped",
    "drops_nothing_beyond_256_keys": "dropout/of_many",
    "repeats_draw_after_512_keys": "dropout/of_many",
    "repeats_draw_after_16_heads": "dropout/of_many",
    "draws_in_eight_bits": "dropout/of_many_rarely",
    "loses_remainder_of_rows_on_threads": "threads/rows_on_2",
    "loses_remainder_of_items_on_threads": "threads/items_on_3",
    "shares_scratch_between_threads": "threads/called_at_once",
    "accepts_mismatched_lengths_in_rank_3": "bad_input/more_keys_than_values_in_rank_3",
    "accepts_mismatched_widths_when_causal": "bad_input/widths_differ_with_causal",
    "accepts_masks_that_expand": "bad_input/mask_expands_one_query",
    "accepts_other_heads_of_values": "bad_input/fewer_value_heads",
    "accepts_groups_without_asking": "bad_input/groups_without_asking",
    "breaks_beyond_65536_keys": "lengths/70000_keys",
    "breaks_beyond_32768_queries": "lengths/33000_queries",
    "breaks_beyond_128_heads": "lengths/130_heads",
    "counts_causal_positions_in_half": "lengths/causal",
    "counts_window_positions_in_half": "lengths/windowed_tile",
    "backward_subtracts_no_maximum": "gradient_numerics/far_below_zero",
    "products_with_output_gradient_overflow": "gradient_numerics/large_upstream",
    "sums_products_in_half": "numerics/cancelling_products",
    "loses_key_gradient_of_one_tensor": "roles/query_and_key",
    "loses_value_gradient_of_one_tensor": "roles/key_and_value",
    "allocates_value_gradient_like_key_when_grouped": "gradients/grouped_value_width",
    "gives_no_gradient_without_queries": "gradients/no_queries",
    "refuses_call_with_mask_and_no_items": "no_keys/no_items_masked",
    "reads_first_key_head_without_grad_mode": "state/no_grad_grouped",
    "ignores_scale_without_grad_mode": "state/no_grad_scaled",
    "asks_inference_tensors_for_their_version": "state/inference",
    "shares_zeros_between_calls": "state/written_zeros",
    "answers_one_row_for_all": "state/written_mean",
    "makes_scale_in_default_dtype": "state/default_bfloat16",
    "answers_in_default_dtype": "state/default_float64",
    "ignores_integer_scale": "scale/integer",
    "ignores_bool_mask_at_whole_tiles": "tiles/masked",
    "loses_mask_gradient_at_whole_tiles": "tiles/biased",
    "ignores_float_mask_beyond_32768_keys": "lengths/33000_keys_biased",
    "loses_key_gradient_beyond_4096_keys": "lengths/5000_keys_gradient",
    "tiles_key_heads_in_groups_of_12": "heads/decoding_groups_of_12",
    "loses_column_at_widths_192_128": "gradient_sizes/widths_192_128",
    "loses_value_gradient_beside_wide_keys": "gradient_sizes/widths_128_96",
    "takes_one_expanded_axis_for_both": "layout/key_expanded_items",
    "multiplies_columns_behind_key_by_zero": "layout/key_sliced",
    "loses_gradient_of_query_beside_value": "gradients/q_and_v_alone",
    "adds_bias_in_float16": "numerics/bias_beyond_float16",
    "moves_stream_on_by_4": "dropout/successive_calls",
    "stays_in_stream_for_one_query": "dropout/successive_one_query",
    "reads_whole_vectors_after_aligned_call": "behaviour/aligned_first",
    "loses_key_after_ragged_call": "behaviour/ragged_first",
    "drops_last_key_on_8_threads": "threads/plain_on_8",
    "ignores_bool_mask_beyond_the_grid": "items/beyond_the_grid_masked",
    "ignores_scale_of_numpy": "scale/of_numpy",
    "refuses_call_in_a_window_without_keys": "no_keys/windowed",
    "ignores_causal_with_mask": "causal/with_bool_mask",
}
"""For each mistake the case that was made for it."""


@cache
def named(make: Any) -> dict[str, Any]:
    return {item.name: item for item in make()}


def caught(case: Case, deviation: Mutant) -> bool:
    calls = [case.calls(dtype) for dtype in case.dtypes if dtype in deviation.dtypes]
    return any(audit.kills_mutant(case, calls, case.expected(calls, {}), deviation) for calls in calls)


@pytest.mark.parametrize(("deviation", "case"), CAUGHT.items())
def test_a_mistake_is_caught_by_the_case_made_for_it(deviation: str, case: str) -> None:
    assert caught(named(cases)[case], named(mutants)[deviation])


@pytest.mark.parametrize("name", [name for name in CAUGHT if not name.startswith(("accepts", "breaks"))])
def test_such_a_mistake_is_right_in_a_single_plain_call(name: str) -> None:
    for case in ("plain/small", "plain/self_attention", "gradients/plain"):
        assert not caught(named(cases)[case], named(mutants)[name])


@pytest.mark.parametrize("name", CONTROLS)
def test_correct_computations_pass_all_of_these_families(name: str) -> None:
    for case in (case for case in cases() if case.family in FAMILIES):
        for dtype in case.dtypes:
            calls = case.calls(dtype)
            verdict = case.verdict(calls, run_calls(CONTROLS[name], calls), case.expected(calls, {}))
            assert verdict.status == "passed", (case.name, dtype, verdict.detail)


def test_cases_leave_threads_and_defaults_as_they_were() -> None:
    before = (torch.get_num_threads(), torch.get_default_dtype(), torch.is_inference_mode_enabled())

    for case in (case for case in cases() if case.family in ("threads", "state")):
        run_calls(CONTROLS["correct_dense"], case.calls("float32"))

    assert before == (torch.get_num_threads(), torch.get_default_dtype(), torch.is_inference_mode_enabled())


# One tensor in several roles


def test_the_gradient_of_one_tensor_is_the_sum_of_its_roles() -> None:
    case = next(case for case in cases() if case.name == "roles/query_and_key")
    assert isinstance(case, SharedTensor)
    (call,) = case.calls("float64")

    (expected,) = case.expected((call,), {})

    assert set(expected.gradients) == set(expected.form.gradients) == {"query", "value"}
    separate = expected_result(replace(call, gradient_of=("query", "key")), {}).gradients
    summed = separate["query"].value + separate["key"].value
    assert (expected.gradients["query"].value == summed).all()
    assert (expected.gradients["query"].bound > separate["query"].bound + separate["key"].bound).all()


# Equal bits


def varying(calls: list[int]) -> Any:
    """Right within the bounds, with other bits in every call: sums run in another order each time."""

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        calls.append(len(calls))
        order = torch.randperm(key.shape[-2], generator=torch.Generator().manual_seed(len(calls)))
        key, value = key[..., order, :], value[..., order, :]
        return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value

    return attention


def repeated(conventions: dict[str, str], function: Any) -> Verdict:
    case = named(cases)["behaviour/repeated_tiled"]
    assert isinstance(case, RepeatedCall)
    calls = case.calls("float32")
    return case.verdict(calls, run_calls(function, calls), case.expected(calls, conventions))


def test_equal_bits_are_required_only_where_they_are_declared() -> None:
    declared = {"repeated_calls": "equal_bits"}

    assert repeated({}, varying([])).status == "passed"
    assert repeated({"repeated_calls": "within_bounds"}, varying([])).status == "passed"
    assert repeated(declared, CONTROLS["correct_dense"]).status == "passed"
    broken = repeated(declared, varying([]))
    assert broken.status == "failed"
    assert "numbers of the output differ from call 1's; repeated_calls is declared to be equal_bits" in broken.detail


def test_the_page_lists_what_is_not_tested_and_why() -> None:
    tested, _, not_tested = page().partition("Not tested:")

    assert all(point in not_tested and len(why) > 20 for point, why in NOT_TESTED.items())
    assert all(point in tested for point in ("backward passes", "threads", "modes", "writing", "repeated calls"))
