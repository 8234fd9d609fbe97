"""Mistakes written by others than the deviations' authors are named by the deviation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import attnsuite
from attnsuite.conformance.diagnosis import EXAMINED, Diagnosis, Diagnostician, conventions
from attnsuite.conformance.questions import Questions, Subject
from attnsuite.conformance.runner import judge
from attnsuite.contracts.attention.contract import CONTRACT
from attnsuite.model import Outcome
from attnsuite.registry import implementation
from attnsuite.worker import ask

# Wrong kernels, as their authors would write them


def forgets_the_scale(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.einsum("bhls,bhsv->bhlv", torch.einsum("bhle,bhse->bhls", query, key).softmax(-1), value)


def scales_twice(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return scaled_dot_product_attention(query / math.sqrt(query.shape[-1]), key, value)


def normalises_the_wrong_axis(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-2) @ value


def starts_the_triangle_at_the_end(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    rows, columns = torch.arange(query.shape[-2])[:, None], torch.arange(key.shape[-2])
    mask = columns <= rows + key.shape[-2] - query.shape[-2]
    return scaled_dot_product_attention(query, key, value, attn_mask=mask if is_causal else None)


def leaves_itself_out(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(-1)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask if is_causal else None)


def reads_true_as_hidden(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.masked_fill(attn_mask, -math.inf).softmax(-1) @ value


def scales_the_mask(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
    return ((query @ key.mT + attn_mask) / math.sqrt(query.shape[-1])).softmax(-1) @ value


def answers_nan_in_empty_rows(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.masked_fill(~attn_mask, -math.inf).softmax(-1) @ value


def tiles_the_heads(query: Tensor, key: Tensor, value: Tensor, *, enable_gqa: bool = False) -> Tensor:
    times = query.shape[1] // key.shape[1]
    return scaled_dot_product_attention(query, key.repeat(1, times, 1, 1), value.repeat(1, times, 1, 1))


@pytest.mark.parametrize(
    ("kernel", "case", "deviation"),
    [
        (forgets_the_scale, "plain/small", "unscaled"),
        (scales_twice, "plain/small", "applies_scale_twice"),
        (normalises_the_wrong_axis, "plain/small", "normalises_over_queries"),
        (starts_the_triangle_at_the_end, "causal/more_keys", "aligns_causal_at_the_end"),
        (leaves_itself_out, "causal/square_5", "excludes_the_diagonal"),
        (reads_true_as_hidden, "bool_mask/window", "inverts_bool_mask"),
        (scales_the_mask, "float_mask/random", "adds_mask_before_scaling"),
        (answers_nan_in_empty_rows, "empty_row/bool", "gives_nan_for_empty_row"),
        (tiles_the_heads, "heads/two_groups", "tiles_key_heads"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_known_mistake_is_named(kernel: Callable[..., Tensor], case: str, deviation: str, dtype: str) -> None:
    (outcome,) = attnsuite.check(kernel, cases=case, dtypes=dtype)

    assert outcome.status == "wrong"
    assert outcome.detail.startswith(f'equals "{deviation}": ')
    assert "should be" in outcome.detail, "the numbers follow the diagnosis"


def test_the_mistake_is_said_in_words() -> None:
    (outcome,) = attnsuite.check(forgets_the_scale, cases="plain/small", dtypes="float32")

    assert outcome.detail.startswith('equals "unscaled": the scores are not divided by √e; output[')


def test_a_mistake_that_nobody_knows_has_no_name() -> None:
    def adds_a_little(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return scaled_dot_product_attention(query, key, value) + 0.01

    (outcome,) = attnsuite.check(adds_a_little, cases="plain/small", dtypes="float32")

    assert outcome.status == "wrong"
    assert outcome.detail.startswith("output[")


def test_a_correct_answer_has_no_diagnosis() -> None:
    outcomes = attnsuite.check(scaled_dot_product_attention, cases=("plain", "causal"), dtypes="float32")

    assert {(outcome.status, outcome.detail) for outcome in outcomes} == {("passed", "")}


def test_what_is_wrong_about_an_answer_other_than_its_numbers_has_no_diagnosis() -> None:
    (outcome,) = attnsuite.check(lambda query, key, value: None, cases="plain/small", dtypes="float32")

    assert outcome.detail == "returned None, should return a Tensor"


def question(name: str, function: Callable[..., Any]) -> tuple[Any, ...]:
    """A case, its calls, the function's replies and the truth."""
    case = next(case for case in CONTRACT.cases() if case.name == name)
    calls = case.calls("float32")
    return case, calls, ask(function, calls), case.expected(calls, {})


def test_the_mistake_that_explains_most_is_preferred() -> None:
    def ignores_masks(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        return scaled_dot_product_attention(query, key, value)

    diagnostician = Diagnostician(CONTRACT, {})
    ambiguous = question("bool_mask/rank_1", ignores_masks)

    first = diagnostician.diagnose(*ambiguous)
    for name in ("bool_mask/random", "bool_mask/padding", "empty_row/one_bool"):
        diagnostician.diagnose(*question(name, ignores_masks))
    later = diagnostician.diagnose(*ambiguous)

    assert "ignores_bool_mask" in first.deviations
    assert later == Diagnosis(("ignores_bool_mask",), 'equals "ignores_bool_mask": a boolean mask is ignored')


def established(function: Callable[..., Any], *cases: str) -> Diagnostician:
    """A diagnostician that has seen a function's mistake in these cases."""
    diagnostician = Diagnostician(CONTRACT, {})
    for name in cases:
        diagnostician.diagnose(*question(name, function))
    return diagnostician


def causal_and_unscaled(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """Two mistakes, of which one shows under causal alone."""
    if is_causal:
        return starts_the_triangle_at_the_end(query, key, value, is_causal=True)
    return scaled_dot_product_attention(query, key, value, scale=1.0)


UNSCALED = ("plain/small", "widths/16", "keys/3", "queries/3")


def test_what_is_established_is_tried_first_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []
    diagnostician = established(forgets_the_scale, *UNSCALED)
    diagnostician.matches.update({"divides_by_width": 1, "ignores_scale": 1})
    monkeypatch.setattr("attnsuite.conformance.diagnosis.names.ask", lambda *asked: tried.append(asked) or ask(*asked))

    assert diagnostician.diagnose(*question("keys/17", forgets_the_scale)).deviations == ("unscaled",)
    assert len(tried) == 1


def test_an_established_mistake_is_named_where_its_answer_is_nearly_right() -> None:
    diagnostician = established(forgets_the_scale, *UNSCALED)
    case = next(case for case in CONTRACT.cases() if case.name == "widths/2")
    calls = case.calls("bfloat16")
    truth, replies = case.expected(calls, {}), ask(forgets_the_scale, calls)

    assert 1 < case.verdict(calls, replies, truth).error_ratio < 10
    assert diagnostician.diagnose(case, calls, replies, truth).deviations == ("unscaled",)
    assert not Diagnostician(CONTRACT, {}).diagnose(case, calls, replies, truth).deviations


def test_beside_an_established_mistake_another_is_named_in_the_second_case_that_shows_it() -> None:
    diagnostician = established(causal_and_unscaled, *UNSCALED)

    first = diagnostician.diagnose(*question("causal/more_keys", causal_and_unscaled))
    again = diagnostician.diagnose(*question("causal/more_keys", causal_and_unscaled))
    second = diagnostician.diagnose(*question("causal/more_queries", causal_and_unscaled))

    assert (first, again) == (Diagnosis(), Diagnosis())
    assert second.deviations == ("aligns_causal_at_the_end",)


def nan_where_a_mask_is_boolean(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Any = None) -> Tensor:
    """Unscaled, and NaN under a mask, for which a known mistake is one of several reasons."""
    found = scaled_dot_product_attention(query, key, value, scale=1.0)
    return found if attn_mask is None else found * torch.nan


def test_nan_is_no_sign_of_another_mistake_beside_one_that_numbers_have_established() -> None:
    masked = ("bool_mask/random", "bool_mask/padding", "bool_mask/rank_1")
    alone, beside = Diagnostician(CONTRACT, {}), established(nan_where_a_mask_is_boolean, *UNSCALED)

    named = {name: alone.diagnose(*question(name, nan_where_a_mask_is_boolean)).deviations for name in masked}
    silent = {name: beside.diagnose(*question(name, nan_where_a_mask_is_boolean)).deviations for name in masked}

    assert any("converts_bool_mask_to_nan" in deviations for deviations in named.values())
    assert set(silent.values()) == {()}


def does_not_subtract_the_largest(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query.float() @ key.float().mT / math.sqrt(query.shape[-1])
    powers = scores.exp()
    return (powers @ value.float() / powers.sum(-1, keepdim=True)).to(query.dtype)


def test_where_bounds_are_loose_what_is_established_is_named_and_nothing_else() -> None:
    case = next(case for case in CONTRACT.cases() if case.name == "numerics/huge_logits")
    calls = case.calls("bfloat16")
    truth, replies = case.expected(calls, {}), ask(does_not_subtract_the_largest, calls)
    diagnostician = Diagnostician(CONTRACT, {})
    diagnostician.matches["does_not_subtract_largest"] = 3

    assert not case.counts(truth)
    assert diagnostician.diagnose(case, calls, replies, truth).deviations == ("does_not_subtract_largest",)
    assert not Diagnostician(CONTRACT, {}).diagnose(case, calls, replies, truth).deviations


def test_a_drawn_answer_refutes_no_mistake() -> None:
    drawn = next(case for case in CONTRACT.cases() if case.name == "dropout/drawn_windowed")
    plain = next(case for case in CONTRACT.cases() if case.name == "window/left_1")
    name = "counts_window_with_own_position"
    window = [each for each in CONTRACT.mutants() if each.name == name]
    diagnostician = Diagnostician(CONTRACT, {})

    assert diagnostician._wrong_at(plain, "float32", window) == {name}
    assert diagnostician._wrong_at(drawn, "float32", window) == set()


def test_after_some_thorough_looks_only_what_matched_before_is_tried() -> None:
    diagnostician = Diagnostician(CONTRACT, {})
    unscaled = question("plain/small", forgets_the_scale)
    diagnostician.diagnose(*unscaled)
    diagnostician.examined = EXAMINED

    assert diagnostician.diagnose(*unscaled).deviations == ("unscaled",)
    assert diagnostician.diagnose(*question("causal/more_keys", starts_the_triangle_at_the_end)) == Diagnosis()


def test_the_work_that_diagnosis_may_take_is_kept() -> None:
    unscaled = question("plain/small", forgets_the_scale)
    spent = Diagnostician(CONTRACT, {}, budget=0.0)

    assert spent.diagnose(*unscaled) == Diagnosis(), "nothing is tried once the budget is spent"
    assert spent.work == 0.0
    assert Diagnostician(CONTRACT, {}).diagnose(*unscaled).deviations == ("unscaled",)


def test_what_matched_before_is_tried_where_the_budget_is_used_up() -> None:
    diagnostician = Diagnostician(CONTRACT, {})
    unscaled = question("plain/small", forgets_the_scale)
    diagnostician.diagnose(*unscaled)
    diagnostician.budget = diagnostician.work

    assert diagnostician.diagnose(*unscaled).deviations == ("unscaled",)


def test_answers_that_are_not_compared_with_every_mistake_are_told_from_those_that_are_no_known_one() -> None:
    unknown = question("plain/small", lambda query, key, value: scaled_dot_product_attention(query, key, value) + 0.1)
    diagnostician = Diagnostician(CONTRACT, {})

    assert diagnostician.diagnose(*unknown).compared
    diagnostician.examined = EXAMINED
    assert not diagnostician.diagnose(*unknown).compared
    assert not Diagnostician(CONTRACT, {}, budget=10.0).diagnose(*unknown).compared


def test_work_is_counted_so_that_every_machine_tries_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def counted(function: Callable[..., Any], calls: Any) -> Any:
        tried.append(getattr(function, "__name__", ""))
        return ask(function, calls)

    unknown = question("plain/small", lambda query, key, value: scaled_dot_product_attention(query, key, value) + 0.1)
    monkeypatch.setattr("attnsuite.conformance.diagnosis.names.ask", counted)
    limited = Diagnostician(CONTRACT, {}, budget=300.0)
    limited.diagnose(*unknown)
    limited.diagnose(*unknown)

    assert 250 <= len(tried) <= 300, "a try on a small case costs little more than 1"
    assert 300 <= limited.work < 302


@pytest.mark.parametrize(
    ("case", "due"),
    [
        ("plain/small", {"repeated_calls": "equal_bits"}),
        ("causal/more_keys", {"causal": "lower_right", "repeated_calls": "equal_bits"}),
    ],
)
def test_a_convention_is_suspected_only_where_the_question_is_about_it(
    case: str, due: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = {"causal": "lower_right", "window": "lower_right", "repeated_calls": "equal_bits"}
    diagnostician = Diagnostician(CONTRACT, declared)
    seen = []
    monkeypatch.setattr(diagnostician, "_by_these", lambda question, kept: seen.append(kept) or not kept.keys() & due)

    says = diagnostician.diagnose(*question(case, forgets_the_scale)).says

    assert seen[-1] == {point: chosen for point, chosen in declared.items() if point not in due}
    assert says.endswith(f"({', '.join(f'{point} is {chosen}' for point, chosen in due.items())})")


def test_a_broken_convention_is_reported_in_plain_words() -> None:
    declared = {"causal": "lower_right", "empty_row": "nan", "repeated_calls": "equal_bits"}
    known = CONTRACT.conventions

    said = [conventions.broken([point], known, declared) for point in declared]

    assert said == [
        "causal is aligned at the first key; the declared convention: aligned at the last key (causal is lower_right)",
        "a query that may attend to nothing gives zeros; the declared convention: NaN (empty_row is nan)",
        "repeated_calls is within_bounds; the declared convention: equal_bits (repeated_calls is equal_bits)",
    ]
    assert all(map(conventions.names_one, said))


def test_a_wrongly_declared_convention_is_no_mistake_of_the_computation() -> None:
    def declared(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal)

    implementation(conventions={"causal": "lower_right"})(declared)

    outcome = attnsuite.check(declared, cases="causal/more_keys", dtypes="float32")[0]

    assert outcome.status == "wrong"
    assert outcome.detail.startswith(
        "causal is aligned at the first key; the declared convention: aligned at the last key (causal is lower_right); "
    )


def one_key_too_many(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """Causal is aligned at the last key, and sees one beyond."""
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(key.shape[-2] - query.shape[-2] + 1)
    output = scaled_dot_product_attention(query, key, value, attn_mask=mask if is_causal else None)
    return output.nan_to_num(0.0)


@pytest.mark.parametrize("name", ["causal/more_keys", "causal/more_queries", "gradients/causal_wide"])
def test_mistakes_are_made_under_the_conventions_of_who_answers(name: str) -> None:
    declared = {"causal": "lower_right"}
    case = next(case for case in CONTRACT.cases() if case.name == name)
    calls = case.calls("float32")
    replies = ask(one_key_too_many, calls)

    found = Diagnostician(CONTRACT, declared).diagnose(case, calls, replies, case.expected(calls, declared))

    assert "allows_one_future_key" in found.deviations


def test_a_mistake_that_breaks_a_relation_is_named_by_each_answer() -> None:
    def sees_the_next(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(1)
        return scaled_dot_product_attention(query, key, value, attn_mask=mask if is_causal else None)

    (outcome,) = attnsuite.check(sees_the_next, cases="metamorphic/future_changed", dtypes="float32")

    assert "allows_one_future_key" in outcome.diagnosis


def test_where_a_mistake_is_established_two_others_are_no_pair() -> None:
    acting = [
        each for each in CONTRACT.mutants() if each.name in ("unscaled", "excludes_the_diagonal", "rectifies_scores")
    ]
    before, after = Diagnostician(CONTRACT, {}), Diagnostician(CONTRACT, {})
    after.matches["unscaled"] = 3

    assert len(before._likely_pairs(acting)) == 3
    pairs = after._likely_pairs(acting)
    assert len(pairs) == 2
    assert all("unscaled" in {each.name for each in pair} for pair in pairs)


def test_of_two_conventions_the_one_that_is_not_kept_is_named() -> None:
    def first_key(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False, window: Any = None) -> Tensor:
        """A causal mask that begins at the first key, beside a window that ends at the last one."""
        rows, columns = torch.arange(query.shape[-2])[:, None], torch.arange(key.shape[-2])
        left, right = window
        last = rows + key.shape[-2] - query.shape[-2]
        near = (columns >= last - left) & (columns <= last + right)
        seen = near & (columns <= rows) if is_causal else near
        scores = (query @ key.mT / math.sqrt(query.shape[-1])).masked_fill(~seen, -1e30)
        return scores.softmax(-1).masked_fill(~seen, 0.0) @ value

    declared = {"causal": "lower_right", "window": "lower_right"}
    made = next(case for case in CONTRACT.cases() if case.name == "window/more_keys").but(causal=True, window=(25, 1))
    calls = made.calls("float32")
    truth, replies = made.expected(calls, declared), ask(first_key, calls)

    says = Diagnostician(CONTRACT, declared).diagnose(made, calls, replies, truth).says

    assert says.endswith("(causal is lower_right)")


def test_the_plainest_softmax_is_named_and_nan_everywhere_is_not() -> None:
    def textbook(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        scores = query @ key.mT / query.shape[-1] ** 0.5
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        return scores.softmax(-1) @ value

    first, *named = [o for o in attnsuite.check(textbook, cases="empty_row_gradients", dtypes="float32") if o.fails]
    (nan_alone,) = attnsuite.check(textbook, cases="empty_row_gradients/all_float", dtypes="float32")

    assert first.diagnosis, "several mistakes explain the first answer"
    assert {outcome.diagnosis for outcome in named} == {("takes_softmax_of_empty_row",)}
    assert (nan_alone.status, nan_alone.diagnosis) == ("wrong", ())


def off_by(bounds: float) -> Outcome:
    """The outcome of an output with one element that many bounds off, where `unscaled` explains every failure."""
    case = next(case for case in CONTRACT.cases() if case.name == "plain/small")
    asked = Questions(CONTRACT, keep=False).question(case, "float32", {})
    (reply,), (due,) = ask(scaled_dot_product_attention, asked.calls), asked.truth
    assert reply.output is not None
    reply.output[0, 0, 0, 0] += bounds * float(due.output.bound[0, 0, 0, 0])
    subject = Subject("wrong", CONTRACT, lambda calls: (reply,), lambda calls: (reply,))
    return judge(subject, asked, (reply,), NamesEverything(CONTRACT, {}))


class NamesEverything(Diagnostician):
    def diagnose(self, *question: Any) -> Diagnosis:
        return Diagnosis(("unscaled",), 'equals "unscaled"')


def test_a_marginal_excess_names_no_mistake() -> None:
    marginal, clear = off_by(3.0), off_by(50.0)

    assert (marginal.status, marginal.diagnosis) == ("wrong", ())
    assert marginal.detail.endswith("1 of 160 elements); close to the tolerance, so no known mistake is named")
    assert clear.diagnosis == ("unscaled",)
