"""Verdicts on attention weights that a model returns, and on tokens that it chooses greedily."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from builders import case_named
from torch import Tensor

import attnsuite
from attnsuite.cases import Reply
from attnsuite.cases.expected import Form, NearInNorm, row_sum_bound
from attnsuite.cases.model import ExpectedTokens, expected_tokens
from attnsuite.contracts import contract
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import DTYPES
from attnsuite.worker.calling import run_calls

NO_DICTIONARY = (
    "the attention weights are no dictionary, should be one of encoder.0.attention, encoder.1.attention, "
    "decoder.0.self_attention and 3 more"
)
LAST = "decoder.1.cross_attention"
GREEDY = {"begin": 0, "end": 1, "steps": 3}


def changed(change: Callable[[Any], Any]) -> Verdict:
    """The verdict on a Transformer whose results are changed."""
    correct, case = contract("transformer").controls()["correct"], case_named("transformer", "weights/usual")

    def factory(config: Any, weights: Any, **options: Any) -> Any:
        model = correct(config, weights, **options)
        return lambda *inputs: change(model(*inputs))

    calls = case.calls("float32")
    return case.verdict(calls, run_calls(factory, calls), case.expected(calls, {}))


def in_weights(change: Callable[[dict[str, Tensor]], Any]) -> Callable[[Any], Any]:
    return lambda result: (result[0], change(result[1]))


def in_last(change: Callable[[Tensor], Any]) -> Callable[[Any], Any]:
    return in_weights(lambda weights: {**weights, LAST: change(weights[LAST])})


@pytest.mark.parametrize("pair", [tuple, list])
def test_a_correct_pair_passes(pair: Callable[[Any], Any]) -> None:
    assert changed(pair).status == "passed"


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (lambda result: result[0], "returned an output alone, should return the output and its attention weights"),
        (lambda result: (*result, None), "returned a tuple, should return a Tensor"),
        (in_weights(lambda weights: weights["encoder.0.attention"]), NO_DICTIONARY),
        (in_weights(lambda weights: dict([*weights.items()][1:])), "the attention weights lack encoder.0.attention"),
        (in_weights(lambda weights: {**weights, "my": 0}), "the attention weights have unexpected names: my"),
        (in_last(lambda tensor: tensor.tolist()), f"the attention weights {LAST} are no tensor"),
        (in_last(lambda tensor: tensor.mean(1)),
         f"attention weights {LAST} has shape (3, 5, 7), should have (3, 4, 5, 7)"),
        (in_last(lambda tensor: tensor.double()), f"attention weights {LAST} is float64, should be float32"),
        (in_last(lambda tensor: tensor.clamp_min(1e-30)),
         f"{LAST}[1, 0, 0, 4] is 1e-30, of a key that its query may not attend to, expected 0"),
        (in_last(lambda tensor: tensor * 1.001), f"the sum of attention weights {LAST}["),
        (lambda result: (result[0] + 1, {name: rows + 1 for name, rows in result[1].items()}), "output["),
    ],
)  # fmt: skip
def test_the_first_mistake_of_a_pair_is_reported(change: Callable[[Any], Any], detail: str) -> None:
    verdict = changed(change)

    assert verdict.status == "failed"
    assert detail in verdict.detail
    assert not detail.startswith("output") or "attention weights" not in verdict.detail, "the output comes first"


def test_a_missing_parameter_is_unsupported() -> None:
    correct = contract("transformer").controls()["correct"]

    def factory(config: Any, weights: Any) -> Any:
        return correct(config, weights)

    outcomes = attnsuite.check(factory, contract="transformer", cases=["weights", "greedy"], dtypes="float32")

    assert {(outcome.status, outcome.detail) for outcome in outcomes} == {
        ("unsupported", "takes no need_weights"),
        ("unsupported", "takes no greedy"),
        ("unsupported", "takes no greedy and no need_weights"),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("keys", [1, 7, 1000])
def test_row_sums_of_a_correct_softmax_lie_within_their_bound(dtype: str, keys: int) -> None:
    torch.manual_seed(0)
    scores = (8 * torch.randn(200, keys)).to(getattr(torch, dtype))
    bound = row_sum_bound(keys, PRECISIONS[dtype])

    def error(weights: Tensor) -> float:
        return float(abs(compare.numbers(weights).sum(-1) - 1).max())

    assert error(scores.softmax(-1)) <= bound
    assert error(scores.log_softmax(-1).exp()) <= bound
    assert error(scores.softmax(-1) * (1 + 3 * bound)) > bound


def test_one_attention_has_a_bound_for_every_weight() -> None:
    case = case_named("multi_head_attention", "weights/masked")
    (expected,) = case.expected(case.calls("float32"), {})
    (weights,) = expected.attentions.values()

    assert (weights.expected.slack[weights.hidden] == 0).all()
    assert 0 < weights.expected.slack[~weights.hidden].min() < weights.expected.slack.max() < 1e-3


# Tokens

HIGH, CLOSE = 9, 0.15
"""A logit that is chosen with certainty, and one that is not: the tolerance is 0.1."""


@pytest.mark.parametrize(
    ("logits", "proposed", "tokens", "known"),
    [
        ([[0, 0, HIGH], [0, 0, CLOSE], [HIGH, 0, 0]], [2, 2, 0], [2, 2, 0], [True, False, False]),
        ([[0, 0, HIGH], [0, HIGH, 0], [0, 0, 0]], [2, 1, 1], [2, 1, 1], [True, True, True]),
        ([[0, 0, HIGH], [HIGH, 0, 0], [HIGH, 0, 0]], [0, 0, 0], None, [False, False, False]),
    ],
    ids=["two logits are close", "behind the end everything is the end token", "another token was read"],
)
def test_tokens_are_known_up_to_the_first_uncertain_step(
    logits: Any, proposed: list[int], tokens: list[int] | None, known: list[bool]
) -> None:
    value = np.array([logits], float)
    expected = NearInNorm(Form(value.shape, torch.float64), value, np.full(value.shape[:2], 0.1))

    result = expected_tokens(expected, np.array([proposed]), GREEDY)

    assert result.known.tolist() == [known]
    assert tokens is None or result.value.tolist() == [tokens]


def test_the_first_wrong_token_is_named() -> None:
    expected = ExpectedTokens(Form((1, 3), torch.int64), np.array([[2, 0, 1]]), np.array([[True, True, False]]))

    assert expected.verdict(Reply(torch.tensor([[2, 0, 2]]))).status == "passed"
    wrong = expected.verdict(Reply(torch.tensor([[2, 2, 2]])))
    assert wrong.detail == "token 2 of item 0 is 2, expected 0 (1 of 2 tokens)"


@pytest.mark.parametrize("name", ["transformer", "seq2seq_attention"])
def test_every_token_is_known_in_the_precise_dtypes_and_some_translations_end(name: str) -> None:
    for case in (case for case in contract(name).cases() if case.family == "greedy"):
        for dtype in ("float64", "float32"):
            calls = case.calls(dtype)
            expected = case.expected(calls, {})
            assert all(tokens.known.all() for tokens in expected), case.name
    ends = np.concatenate([tokens.value[:, -1] == calls[0].factory_options["greedy"]["end"] for tokens in expected])
    assert set(ends.tolist()) == {True, False}


def test_a_translation_is_what_a_model_chooses_when_it_reads_the_translation() -> None:
    case, correct = case_named("seq2seq_attention", "greedy/usual"), contract("seq2seq_attention").controls()["correct"]
    (call,) = case.calls("float64")
    tokens = run_calls(correct, (call,))[0].output
    assert tokens is not None
    read = torch.cat([torch.full((len(tokens), 1), 1), tokens[:, :-1]], 1)

    best = correct(case.config, call.weights)(*call.tensors.values(), read).argmax(-1)

    end = call.factory_options["greedy"]["end"]
    ended = (best == end).cumsum(1) > 0
    assert torch.equal(best.masked_fill(ended, end), tokens)
