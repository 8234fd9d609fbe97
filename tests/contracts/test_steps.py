"""Training steps that are timed: honest ones are believed, and every wrong gradient is refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from attnsuite.benchmark.measure.task import Task
from attnsuite.cases import Workload
from attnsuite.cases.training import LOSS, ROWS, described, next_token_loss
from attnsuite.contracts import contract
from attnsuite.contracts.models import workloads
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import STEP

Attention = Callable[..., Tensor]

CONTRACTS = ("multi_head_attention", "seq2seq_attention", "transformer", "vision_transformer")
HONEST = [
    ("multi_head_attention", "stacked_heads"), ("multi_head_attention", "split_heads"),
    ("multi_head_attention", "torch_nn"), ("seq2seq_attention", "eager"), ("transformer", "eager"),
    ("vision_transformer", "eager"),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def kept_truths() -> Iterator[None]:
    """What a step has to learn is made once for all tests: outside of tests the latest alone is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workloads, "_learned", cache(workloads._learned.__wrapped__))
        yield


@cache
def trained(name: str) -> Workload:
    """The first workload of a contract that has a training step: one for all tests, which keeps what it was asked."""
    return next(each for each in contract(name).workloads() if STEP in each.directions)


def shipped(name: str, of: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(import_module(f"attnsuite.implementations.{name}.{of}"), name)
    return function


def taken(function: Callable[..., Any], workload: Workload, dtype: str = "float32") -> dict[str, Tensor]:
    """Rows of what the second of two steps of round 5 returns."""
    task = Task(function, workload, dtype, STEP, "cpu", "hot")
    task.enter_round(5)
    task.stopwatch.sample(2)
    return task.output_rows(workload.rows(STEP, Random(1)))


@cache
def honest(name: str, of: str, dtype: str = "float32") -> dict[str, Tensor]:
    """The same of an implementation that ships: taken once for all tests."""
    return taken(shipped(name, of), trained(name), dtype)


def held(name: str, found: dict[str, Tensor], claimed: int = 5, dtype: str = "float32") -> Verdict:
    """The verdict on a step that was taken."""
    workload = trained(name)
    return workload.verdict(dtype, STEP, claimed, workload.rows(STEP, Random(1)), found)


def judged(function: Callable[..., Any], workload: Workload, dtype: str = "float32", claimed: int = 5) -> Verdict:
    """The verdict on that step, claimed to be of the same or another round."""
    found = taken(function, workload, dtype)
    return workload.verdict(dtype, STEP, claimed, workload.rows(STEP, Random(1)), found)


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_model_and_multi_head_attention_have_a_step_in_the_profile_standard(name: str) -> None:
    workload = trained(name)

    assert STEP in workload.profiles["standard"]
    assert "quick" not in workload.profiles
    assert workload.work("float32", STEP)["attended"] == 3 * workload.work("float32", "forward")["attended"]
    assert workload.work("float32", STEP)["bytes"] > workload.work("float32", "forward")["bytes"]


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_loss_and_rows_of_every_gradient_are_looked_at(name: str) -> None:
    workload = trained(name)
    call = workload.call("float32", STEP, device="meta")
    weights = {**call.tensors, **call.weights}

    rows = workload.rows(STEP, Random(1))

    assert set(rows) == {LOSS, *call.gradient_of}
    assert set(call.weights) <= set(call.gradient_of)
    for of in call.gradient_of:
        height = weights[of].numel() // weights[of].shape[-1]
        assert len(rows[of]) == min(ROWS, height)
        assert max(rows[of]) < height


@pytest.mark.slow
@pytest.mark.parametrize(("name", "of"), HONEST)
def test_an_honest_step_is_believed(name: str, of: str) -> None:
    verdict = held(name, honest(name, of))

    assert verdict.status == "passed", verdict.detail
    assert verdict.error_ratio is not None
    assert 0 < verdict.error_ratio < 0.7


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_an_honest_step_is_believed_in_other_dtypes(dtype: str) -> None:
    verdict = judged(shipped("multi_head_attention", "split_heads"), trained("multi_head_attention"), dtype)

    assert verdict.status == "passed", verdict.detail


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTRACTS)
def test_the_step_of_another_round_is_wrong(name: str) -> None:
    of = "split_heads" if name == "multi_head_attention" else "eager"

    assert held(name, honest(name, of), claimed=6).status == "failed"


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_loss_and_every_gradient_are_held_against_the_truth(name: str) -> None:
    """What is 3 % off is named, whichever it is, and so is what did not come."""
    workload, rows = trained(name), trained(name).rows(STEP, Random(1))
    right = honest(name, "split_heads" if name == "multi_head_attention" else "eager")

    for of in rows:
        wrong = workload.verdict("float32", STEP, 5, rows, {**right, of: 0.97 * right[of]})
        absent = workload.verdict("float32", STEP, 5, rows, {n: found for n, found in right.items() if n != of})

        assert (wrong.status, wrong.detail.split(":")[0]) == ("failed", described(of))
        assert (absent.status, absent.detail) == ("failed", f"no {described(of)} was returned")


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", [LOSS, "w_query"])
def test_what_is_not_finite_is_wrong(name: str, value: float) -> None:
    found = honest("multi_head_attention", "split_heads")

    verdict = held("multi_head_attention", {**found, name: torch.full_like(found[name], value)})

    assert (verdict.status, verdict.error_ratio) == ("failed", math.inf)


class Backward(torch.autograd.Function):
    """Attention whose answer is right, and whose gradient is computed by hand, with a mistake in it."""

    @staticmethod
    def forward(context: Any, mistake: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        weights = (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(-1)
        context.save_for_backward(query, key, value, weights)
        context.mistake = mistake
        return weights @ value

    @staticmethod
    def backward(context: Any, upstream: Tensor) -> Any:  # type: ignore[override]
        query, key, value, weights = context.saved_tensors
        of_weights = upstream @ value.mT
        if context.mistake != "no_row_sum":
            of_weights = of_weights - (of_weights * weights).sum(-1, keepdim=True)
        of_scores = weights * of_weights
        scale = 1.0 if context.mistake == "unscaled" else 1 / math.sqrt(query.shape[-1])
        of_value = (weights.mT.flip(-1) if context.mistake == "turned_values" else weights.mT) @ upstream
        return None, of_scores @ key * scale, of_scores.mT @ query * scale, of_value, None


def attention_with(mistake: str) -> Attention:
    def attend(
        query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        if is_causal:
            attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        found: Tensor = Backward.apply(mistake, query, key, value, attn_mask)
        return found

    return attend


def model_with(name: str, of: str, mistake: str) -> Callable[..., Any]:
    """A shipped implementation with that attention plugged in."""
    function, attention = shipped(name, of), attention_with(mistake)
    return lambda *given, **named: function(*given, **named, attention=attention)


PLUGGED = [("multi_head_attention", "split_heads"), ("transformer", "eager"), ("vision_transformer", "eager")]


@pytest.mark.parametrize(("name", "of"), PLUGGED)
def test_a_gradient_by_hand_is_believed_where_it_is_right(name: str, of: str) -> None:
    verdict = judged(model_with(name, of, ""), trained(name))

    assert verdict.status == "passed", verdict.detail


@pytest.mark.parametrize("mistake", ["no_row_sum", "unscaled", "turned_values"])
@pytest.mark.parametrize(("name", "of"), PLUGGED)
def test_a_wrong_gradient_behind_a_right_answer_is_refused(name: str, of: str, mistake: str) -> None:
    verdict = judged(model_with(name, of, mistake), trained(name))

    assert verdict.status == "failed"
    assert verdict.detail.startswith("gradient of "), "the loss is right"


def test_no_loss_is_counted_for_padding() -> None:
    logits, words = torch.randn(2, 4, 5), torch.tensor([[1, 2, 0, 0], [3, 4, 1, 2]])
    own = torch.stack(
        [-logits.log_softmax(-1)[0, 0, 2], *(-logits.log_softmax(-1)[1, i, words[1, i + 1]] for i in range(3))]
    )

    assert next_token_loss(logits, {"target": words}).item() == pytest.approx(own.mean().item())


def test_what_is_built_for_inference_says_so() -> None:
    def factory(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Callable[..., Tensor]:
        return shipped("vision_transformer", "eager")(config, {name: w.detach() for name, w in weights.items()})

    with pytest.raises(NotImplementedError, match=r"^no gradient reaches its weights: it is built for inference$"):
        judged(factory, trained("vision_transformer"))


def test_weights_that_no_gradient_reaches_are_named() -> None:
    def factory(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Callable[..., Tensor]:
        detached = {**weights, "class_token": weights["class_token"].detach(), "w_patch": weights["w_patch"].detach()}
        return shipped("vision_transformer", "eager")(config, detached)

    with pytest.raises(
        NotImplementedError, match=r"^no gradient reaches (class_token|w_patch) and 1 more of its weights"
    ):
        judged(factory, trained("vision_transformer"))
