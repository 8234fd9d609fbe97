"""A check that failed says where, and ends with lines that show it when they are pasted."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch

from attnsuite import registry
from attnsuite.cases import Call, Variant, list_tests
from attnsuite.conformance import diagnosis
from attnsuite.conformance.audit import variant_implementation
from attnsuite.conformance.case_tests import CaseTests
from attnsuite.conformance.check import Check
from attnsuite.conformance.explanation import LATER, STATE, Budget, Explainer, FailingTest, kind_of, shrunk
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.contracts import contract
from attnsuite.contracts.attention.reproduction import fewer_axes
from attnsuite.model import Explanation, Outcome, Status

FILE = Path(__file__).parents[1] / "submissions" / "wrong_where_features_meet.py"

BACKWARD = ("failed only with is_causal; only the gradient of value is wrong",)
MANY_KEYS = ("right up to 32 keys, failed from 48 on",)
UNEQUAL = ("raised only with different numbers of queries and keys",)
WIDE_AND_CAUSAL = ("failed only where a width of 16 and is_causal meet",)


def explained(function: str, *cases: str, dtype: str = "float32") -> tuple[list[Outcome], Explanation]:
    """The outcomes of a function that is wrong where features meet, and what is said of them."""
    (declaration,) = registry.find([f"{FILE}:{function}"])
    session = Session(CheckRequest(cases, (dtype,), strict=True), keep_inputs=False, explains=True)
    outcomes = session.outcomes(declaration)
    return outcomes, session.explanations[declaration.full_name]


FORKS = """
import json, os, sys, traceback

import torch

for line in sys.stdin:
    if not os.fork():
        os.dup2(1, 2)
        try:
            exec(json.loads(line), {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.wait()
    print("", "pasted", sep="\\n", flush=True)
"""
"""Runs programs one by one, each in a process of its own that begins with nothing but torch in memory: importing it
takes longer than the rest of them."""


@pytest.fixture(scope="module")
def pasted() -> Iterator[Callable[[Sequence[str]], str]]:
    """What a fresh Python prints, and how it ends."""
    begun = subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert begun.stdin
    assert begun.stdout
    given, printed = begun.stdin, begun.stdout

    def of(lines: Sequence[str]) -> str:
        print(json.dumps("\n".join(lines)), file=given, flush=True)
        return "".join(iter(printed.readline, "pasted\n"))

    with begun:
        yield of
        given.close()


def test_an_input_that_passes_in_a_new_process_is_no_reproduction() -> None:
    outcomes, explanation = explained("keeps_the_first_scale", "plain/small", "widths/*")
    failing = [outcome.case for outcome in outcomes if outcome.fails]

    assert explanation.reproductions == ()
    (sentence,) = [says for says in explanation.where if says.endswith(STATE)]
    assert sentence.removeprefix("the smallest input of ").partition(" ")[0] in failing


def of_mutant(name: str, known: str, *families: str) -> tuple[Explainer, list[Outcome]]:
    """The check of a mutant in float32, where only the other one is known, and its outcomes without a name."""
    mutants = {mutant.name: mutant for mutant in contract("attention").mutants()}
    only = replace(contract("attention"), mutants=lambda: (mutants[known],))
    implementation = variant_implementation(Variant(name, "", mutants[name].function), only)
    cases = [case for case in only.cases() if case.family in families]
    tests = list_tests(cases, "cpu", ("float32",))
    check = Check(implementation, CaseTests(only, keep=True), tests)
    return Explainer(check), list(check.outcomes(tests))


def test_a_mistake_that_explains_a_part_of_one_cause_is_not_named() -> None:
    """With a scale of 0 it is that of the implementation as well, which also ignores any other scale."""
    explainer, outcomes = of_mutant("ignores_scale", "reads_zero_scale_as_none", "plain", "scale")
    zero = {outcome.case for outcome in explainer.check.diagnosed(outcomes)}
    assert {"scale/zero", "scale/integer_zero"} <= zero
    assert explainer.named(outcomes) == []

    explainer, outcomes = of_mutant("reads_zero_scale_as_none", "reads_zero_scale_as_none", "plain", "scale")
    assert {outcome.case for outcome in explainer.named(outcomes)} == zero


def test_a_right_gradient_of_a_tensor_in_several_roles_has_no_reproduction() -> None:
    """The case expects the sum over the roles, and a call alone the gradient of one."""
    style = next(variant for variant in contract("attention").variants() if variant.name == "keys_first")
    implementation = variant_implementation(style, contract("attention"))
    cases = [case for case in contract("attention").cases() if case.name == "roles/all_three"]
    tests = list_tests(cases, "cpu", ("float32",))
    check = Check(implementation, CaseTests(contract("attention"), keep=True), tests)
    reproducing = contract("attention").reproducer()
    assert reproducing is not None
    failed = msgspec.structs.replace(
        implementation.outcome("roles/all_three", "float32", Status.FAILED), error_ratio=9.0
    )

    failing = FailingTest(check, check.test(*tests[0]), reproducing, failed)

    assert any(call.same_tensor and call.gradient_of for call in failing.test.calls)
    assert list(failing.reproductions(Budget())) == []


def test_failures_in_tests_of_several_sizes_are_counted_apart() -> None:
    explainer, outcomes = of_mutant("repeats_first_items_answer", "ignores_scale", "plain", "items", "roles")
    says = [unnamed.rule.says for unnamed in explainer.unnamed(outcomes)]
    assert any("batch items" in sentence and "in tests of several sizes" in sentence for sentence in says)


@pytest.mark.parametrize(
    ("detail", "kind"),
    [
        ("output[0, 1] is nan, should be 0.5 within 1e-06", "infinite"),
        ("lse[0] is -inf, should be 0.5 within 1e-06", "infinite"),
        ("output holds 3 numbers that are infinite or NaN", "infinite"),
        ("output[0, 1] is 0.5, should be 0 within 0 (error inf × the tolerance)", "numbers"),
        ("lse[0] is 0.5, should be -inf within 0 (error inf × the tolerance)", "numbers"),
    ],
)
def test_an_infinite_error_of_a_finite_number_is_one_of_numbers(detail: str, kind: str) -> None:
    explainer, _ = of_mutant("ignores_scale", "ignores_scale")
    outcome = explainer.check.implementation.outcome("plain/small", "float32", Status.FAILED, detail)
    assert kind_of(msgspec.structs.replace(outcome, error_ratio=math.inf)) == kind


def test_results_that_depend_on_earlier_calls_are_described_so() -> None:
    explainer, outcomes = of_mutant("varies_between_calls", "ignores_scale", "plain", "order", "metamorphic")
    (unnamed,) = explainer.unnamed(outcomes)
    assert unnamed.places == LATER


def test_a_size_from_which_a_process_ends_is_reported() -> None:
    _, found = explained("crashes_beyond_32_keys", "plain/small", "keys/31", "keys/32", "keys/48", "keys/63")
    assert found.where == ("right up to 32 keys, crashed from 48 on",)
    assert found.reproductions == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "cases", "where", "printed"),
    [
        ("causal_and_wide", ("plain", "causal", "both/*31", "both/*64", "both/*65"), WIDE_AND_CAUSAL, "actual [["),
        ("wrong_gradient_of_value", ("plain", "causal/square_5", "gradients"), BACKWARD, "actual [["),
        ("loses_a_mask", ("float_mask", "plain", "bool_mask", "mask_gradient"), (), "actual [["),
        ("begins_at_the_first_key", ("plain", "causal/more_keys"), (), "actual [["),
        ("begins_at_the_first_key", ("plain", "causal/more_queries"), (), "expected [[0.5]]"),
        ("nan_beyond_32_keys", ("plain", "keys/31", "keys/32", "keys/48", "keys/63"), MANY_KEYS, "nan"),
        ("raises_for_odd_widths", ("plain", "widths/1", "widths/8", "widths/value_1*"), (), "is odd"),
        ("reads_keys_as_they_lie", ("plain", "layout/key_strided", "layout/key_column_major"), (), "actual [["),
        ("takes_one_length", ("plain", "both/3*", "both/6*", "keys/1", "order/tiled"), UNEQUAL, "is invalid for input"),
        ("accepts_anything", ("plain/small", "bad_input/more_keys_than_values"), (), "an error"),
    ],
)  # fmt: skip
def test_what_is_pasted_shows_the_failure(
    function: str,
    cases: tuple[str, ...],
    where: tuple[str, ...],
    printed: str,
    pasted: Callable[[Sequence[str]], str],
) -> None:
    outcomes, found = explained(function, *cases)

    assert any(outcome.fails for outcome in outcomes)
    assert all(any(sentence.startswith(rule) for sentence in found.where) for rule in where), found.where
    reproduction, *_ = found.reproductions
    assert not reproduction.gave_up
    assert printed in pasted(reproduction.lines)


@pytest.mark.slow
def test_a_backward_of_an_earlier_call_is_shown_with_a_forward_of_its_own(
    pasted: Callable[[Sequence[str]], str],
) -> None:
    outcomes, found = explained("wrong_gradient_of_value", "order")

    assert any(outcome.fails for outcome in outcomes)
    (reproduction,) = found.reproductions
    assert "actual [" in pasted(reproduction.lines)


def test_wrong_attention_without_an_exponential_gets_a_hint(tmp_path: Path) -> None:
    file = tmp_path / "linear.py"
    file.write_text("def attention(query, key, value):\n    return query @ (key.mT @ value)\n")
    session = Session(CheckRequest(("plain/small",), ("float32",)), keep_inputs=False, explains=True)
    (declaration,) = registry.find([str(file)])

    list(session.run(declaration))

    found = session.explanations[declaration.full_name]
    assert found.hint == "no exponential ran: is this softmax attention at all?"
    assert found.where == ()


def test_a_check_that_passes_explains_nothing() -> None:
    _, found = explained("causal_and_wide", "plain")

    assert replace(found, sandbox="", operators=None) == Explanation()


def test_a_line_says_how_many_failures_were_not_compared_and_how_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole = explained("nan_beyond_32_keys", "keys/63", "keys/48")
    monkeypatch.setattr(diagnosis, "MAX_EXAMINED", 0)

    outcomes, found = explained("nan_beyond_32_keys", "keys/63", "keys/48")

    assert whole.uncompared == "", "all were"
    assert [outcome.fails for outcome in outcomes] == [True, True]
    assert found.uncompared.startswith("2 failures were not compared with all known mistakes, ")
    assert found.uncompared.endswith(" --case keys/48 --dtype float32")
    assert found.uncompared in found.lines


@pytest.mark.slow
def test_two_mistakes_are_named_together() -> None:
    causal = ("causal/square_5", "causal/square_16", "causal/square_33")
    outcomes, _ = explained("unscaled_and_future", "plain/small", "plain/self_attention", *causal)
    two_cases, _ = explained("unscaled_and_future", "plain/small", "plain/self_attention", *causal[:2])

    named = {outcome.case: outcome.diagnosis for outcome in outcomes}
    assert named["plain/small"] == ("unscaled",)
    assert named["causal/square_5"] == named["causal/square_16"] == ("unscaled + allows_one_future_key",)
    assert not any("+" in name for outcome in two_cases for name in outcome.diagnosis), "chance may explain two cases"
    assert 'together with "allows_one_future_key"' in next(o.detail for o in outcomes if o.case == "causal/square_16")


def test_which_elements_are_wrong_is_reported() -> None:
    _, found = explained("second_item_is_zero", "plain/small", "plain/many_items", "ranks/*", "keys/3")

    assert any(line.endswith("only every second item of the output is wrong, and 0") for line in found.where), found


@pytest.mark.slow
def test_the_probability_of_dropout_that_nobody_requested_is_inferred() -> None:
    _, found = explained("drops_always", "plain/small", "keys/3")

    says = re.fullmatch(
        r"results differ from call to call: weights are dropped with p = ([\d.]+), though no dropout was requested",
        found.where[0],
    )
    assert says
    assert abs(float(says[1]) - 0.3) < 0.03
    assert found.reproductions == (), "a random failure has no smallest input"


@pytest.mark.slow
def test_a_wider_dtype_does_not_hide_wrong_numbers() -> None:
    outcomes, _ = explained("in_double", "plain/small", "causal/square_5", "causal/square_16")

    named = {outcome.case: outcome for outcome in outcomes}
    assert named["plain/small"].detail == "output is float64, should be float32"
    assert named["causal/square_5"].diagnosis, "its numbers are unscaled"
    assert named["causal/square_5"].detail.endswith("; output is float64, should be float32")


def test_a_missing_feature_is_proposed_as_a_declaration() -> None:
    _, found = explained("has_no_backward", "plain/small", "gradients/plain", "gradients/value_alone")

    assert found.hint.startswith("every test of gradients of query, key and value fails, and no other: ")
    assert found.hint.endswith('declare lacks={"gradient": "the reason"}')


@pytest.mark.slow
def test_a_reproduction_keeps_what_the_contract_and_the_failure_need() -> None:
    _, groups = explained("loses_gradients_of_groups", "plain/small", "gradients/grouped")
    _, hidden = explained("nan_where_a_tile_is_hidden", "plain/small", "bool_mask/random", "bool_mask/square")

    assert any("enable_gqa=True" in line for line in groups.reproductions[0].lines)
    assert not any("clamp_min(-1e300)" in line for line in hidden.reproductions[0].lines), "no row is empty"


# The smallest call


def call(size: int) -> Call:
    return Call({"query": torch.zeros(size)})


def size(of: Call) -> int:
    return len(of.tensors["query"])


def halved(of: Call) -> Iterator[Call]:
    if size(of) > 1:
        yield call(size(of) // 2)


def one_less(of: Call) -> Iterator[Call]:
    if size(of) > 1:
        yield call(size(of) - 1)


def test_the_gradient_of_a_log_sum_exp_loses_the_same_axes() -> None:
    tensors = {name: torch.zeros(1, 1, 3, 2) for name in ("query", "key", "value")}
    whole = Call(tensors, output_gradient=torch.zeros(1, 1, 3, 2), second_gradient=torch.zeros(1, 1, 3))
    ranks = [[x.dim() for x in (c.output_gradient, c.second_gradient) if x is not None] for c in fewer_axes(whole)]

    assert ranks == [[2, 1], [3, 2]]


def test_the_smallest_call_that_fails_is_found() -> None:
    smallest, gave_up = shrunk(call(100), lambda of: (size(of) > 16, 0.0), (halved, one_less), Budget())

    assert (size(smallest), gave_up) == (17, False)


@pytest.mark.parametrize(
    ("budget", "waited", "left"),
    [(Budget(calls=2), 0.0, 25), (Budget(seconds=5.0), 3.0, 25), (Budget(seconds=0.0), 0.0, 100)],
)
def test_it_gives_up_with_the_smallest_call_so_far(budget: Budget, waited: float, left: int) -> None:
    smallest, gave_up = shrunk(call(100), lambda of: (True, waited), (halved,), budget)

    assert (size(smallest), gave_up) == (left, True)
