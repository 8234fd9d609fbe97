"""How attention weights beside an output are judged, and tokens that are chosen greedily."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import attnsuite
from attnsuite.cases import Call, Reply
from attnsuite.cases.expected import Form, NearInNorm, row_sum_bound
from attnsuite.cases.model import ExpectedTokens, ModelCase, expected_tokens
from attnsuite.contracts import contract
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import DTYPES
from attnsuite.worker import run_calls
from attnsuite.worker.calling import split_weights

NO_DICTIONARY = (
    "the attention weights are no dictionary, should be one of encoder.0.attention, encoder.1.attention, "
    "decoder.0.self_attention and 3 more"
)
OF_LAST = "attention weights decoder.1.cross_attention"
GREEDY = {"begin": 0, "end": 1, "steps": 3}


def of_transformer(change: Callable[[Any], Any], name: str = "weights/usual") -> Verdict:
    """What is said of a Transformer whose answers are changed."""
    correct = contract("transformer").controls()["correct"]
    case = next(each for each in contract("transformer").cases() if each.name == name)

    def factory(config: Any, weights: Any, **making: Any) -> Any:
        model = correct(config, weights, **making)
        return lambda *inputs: change(model(*inputs))

    calls = case.calls("float32")
    return case.verdict(calls, run_calls(factory, calls), case.expected(calls, {}))


def in_weights(change: Callable[[dict[str, Tensor]], Any]) -> Callable[[Any], Any]:
    return lambda answer: (answer[0], change(answer[1]))


def without_first(found: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: found[name] for name in list(found)[1:]}


def of_one(change: Callable[[Tensor], Any]) -> Callable[[Any], Any]:
    name = "decoder.1.cross_attention"
    return in_weights(lambda found: {**found, name: change(found[name])})


def test_a_pair_that_is_right_passes() -> None:
    assert of_transformer(lambda answer: answer).status == "passed"
    assert of_transformer(list).status == "passed"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda answer: answer[0], "returned an output alone, should return the output and its attention weights"),
        (lambda answer: (*answer, None), "returned a tuple, should return a Tensor"),
        (in_weights(lambda found: found["encoder.0.attention"]), NO_DICTIONARY),
        (in_weights(without_first), "the attention weights lack encoder.0.attention"),
        (in_weights(lambda found: {**found, "my": torch.ones(1)}), "the attention weights have unexpected names: my"),
        (of_one(lambda tensor: tensor.tolist()), f"the {OF_LAST} are no tensor"),
        (of_one(lambda tensor: tensor.mean(1)), f"{OF_LAST} has shape (3, 5, 7), should have (3, 4, 5, 7)"),
        (of_one(lambda tensor: tensor.double()), f"{OF_LAST} is float64, should be float32"),
    ],
)  # fmt: skip
def test_what_is_no_pair_with_the_right_names_is_told_so(change: Callable[[Any], Any], says: str) -> None:
    found = of_transformer(change)

    assert (found.status, found.detail) == ("failed", says)


def test_a_weight_of_what_is_hidden_is_named_however_small_it_is() -> None:
    found = of_transformer(of_one(lambda tensor: tensor.clamp_min(1e-30)))

    assert found.status == "failed"
    assert (
        "decoder.1.cross_attention[1, 0, 0, 4] is 1e-30, of a key that its query may not attend to, expected 0"
        in found.detail
    )


def test_rows_that_do_not_sum_to_one_are_told_so() -> None:
    found = of_transformer(of_one(lambda tensor: tensor * 1.001))

    assert found.status == "failed"
    assert found.detail.startswith(f"the sum of {OF_LAST}[")


def test_a_wrong_output_comes_before_wrong_weights() -> None:
    found = of_transformer(lambda answer: (answer[0] + 1, {name: each + 1 for name, each in answer[1].items()}))

    assert "output[" in found.detail
    assert "attention weights" not in found.detail


def test_who_has_no_such_parameter_declines_in_sight() -> None:
    correct = contract("transformer").controls()["correct"]

    def factory(config: Any, weights: Any) -> Any:
        return correct(config, weights)

    outcomes = attnsuite.check(factory, contract="transformer", cases=["weights", "greedy"], dtypes="float32")

    assert {(outcome.status, outcome.detail) for outcome in outcomes} == {
        ("unsupported", "takes no need_weights"),
        ("unsupported", "takes no greedy"),
        ("unsupported", "takes no greedy and no need_weights"),
    }


@pytest.mark.parametrize(
    ("returned", "due"),
    [
        (("output", {"a": 1}), ("output", {"a": 1})),
        (["output", "weights"], ("output", {"": "weights"})),
        ("output", ("output", {})),
        (("output", "weights", 3), (("output", "weights", 3), {})),
    ],
)
def test_a_pair_is_parted_into_an_output_and_weights_by_name(returned: Any, due: Any) -> None:
    assert split_weights(returned) == due


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("keys", [1, 7, 1000])
def test_rows_of_an_honest_softmax_lie_within_their_room_and_less_honest_ones_do_not(dtype: str, keys: int) -> None:
    torch.manual_seed(0)
    scores = (8 * torch.randn(200, keys)).to(getattr(torch, dtype))
    room = row_sum_bound(keys, PRECISIONS[dtype])

    def off(weights: Tensor) -> float:
        return float(abs(compare.numbers(weights).sum(-1) - 1).max())

    assert off(scores.softmax(-1)) <= room
    assert off(scores.log_softmax(-1).exp()) <= room
    assert off(scores.softmax(-1) * (1 + 3 * room)) > room


def test_one_attention_has_a_bound_for_every_weight() -> None:
    case = next(each for each in contract("multi_head_attention").cases() if each.name == "weights/masked")
    calls = case.calls("float32")
    (due,) = case.expected(calls, {})
    assert due.attentions is not None
    (shares,) = due.attentions.values()

    assert (shares.expected.slack[shares.hidden] == 0).all()
    assert 0 < shares.expected.slack[~shares.hidden].min() < shares.expected.slack.max() < 1e-3


# Tokens


def logits(*rows: list[float]) -> NearInNorm:
    value = np.array([rows])
    return NearInNorm(Form(value.shape, torch.float64), value, np.full(value.shape[:2], 0.1))


def test_tokens_are_known_until_two_logits_are_too_near() -> None:
    found = expected_tokens(logits([0, 0, 9], [0, 0, 0.15], [9, 0, 0]), np.array([[2, 2, 0]]), GREEDY)

    assert found.value.tolist() == [[2, 2, 0]]
    assert found.known.tolist() == [[True, False, False]]


def test_everything_behind_the_end_is_the_end_token_and_known() -> None:
    found = expected_tokens(logits([0, 0, 9], [0, 9, 0], [0, 0, 0]), np.array([[2, 1, 1]]), GREEDY)

    assert found.value.tolist() == [[2, 1, 1]]
    assert found.known.tolist() == [[True, True, True]]


def test_where_another_token_was_read_than_the_logits_choose_nothing_is_known() -> None:
    found = expected_tokens(logits([0, 0, 9], [9, 0, 0], [9, 0, 0]), np.array([[0, 0, 0]]), GREEDY)

    assert not found.known.any()


def test_the_first_wrong_token_is_named() -> None:
    due = ExpectedTokens(Form((1, 3), torch.int64), np.array([[2, 0, 1]]), np.array([[True, True, False]]))

    assert due.verdict(Reply(torch.tensor([[2, 0, 2]]))).status == "passed"
    assert due.verdict(Reply(torch.tensor([[2, 2, 2]]))).detail == (
        "token 2 of item 0 is 2, expected 0 (1 of 2 tokens)"
    )


def greedy_calls(name: str, case: str, dtype: str) -> tuple[ModelCase, tuple[Call, ...]]:
    found = next(each for each in contract(name).cases() if each.name == case)
    assert isinstance(found, ModelCase)
    return found, found.calls(dtype)


@pytest.mark.parametrize("name", ["transformer", "seq2seq_attention"])
def test_every_token_is_known_in_the_precise_dtypes_and_some_translations_end(name: str) -> None:
    for case in (each for each in contract(name).cases() if each.family == "greedy"):
        for dtype in ("float64", "float32"):
            dues = [getattr(due, "of", due) for due in case.expected(case.calls(dtype), {})]
            assert all(due.known.all() for due in dues), case.name
    ends = [due.value[:, -1] == 2 for due in dues]
    assert {bool(each) for each in np.concatenate(ends)} == {True, False}


def test_decoding_with_a_cache_and_without_gives_the_same_tokens() -> None:
    of = contract("transformer").controls()["correct"]
    answers = [
        run_calls(of, greedy_calls("transformer", case, "float32")[1]) for case in ("greedy/usual", "greedy/cached")
    ]

    (whole,), (cached,) = answers
    assert whole.output is not None
    assert whole.output.tolist() == cached.output.tolist()  # type: ignore[union-attr]


def test_a_translation_is_what_a_model_chooses_when_it_is_taught_it() -> None:
    case, (call,) = greedy_calls("seq2seq_attention", "greedy/usual", "float64")
    of = contract("seq2seq_attention").controls()["correct"]
    tokens = run_calls(of, (call,))[0].output
    assert tokens is not None
    taught = torch.cat([torch.full((len(tokens), 1), 1), tokens[:, :-1]], 1)

    best = of(case.config, call.weights)(*call.tensors.values(), taught).argmax(-1)

    ended = (best == 2).cumsum(1) > 0
    assert torch.equal(best.masked_fill(ended, 2), tokens)
