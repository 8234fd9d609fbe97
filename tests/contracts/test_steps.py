"""Timed training steps: honest ones pass, and a message names the first wrong gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

import pytest
import torch
from mistaken import by_hand
from torch import Tensor

from attnsuite.benchmark.measure.task import Task
from attnsuite.cases import Workload
from attnsuite.cases.training import LOSS, ROWS, described, next_token_loss
from attnsuite.contracts import contract
from attnsuite.contracts.models import workloads
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import STEP

CONTRACTS = ("multi_head_attention", "seq2seq_attention", "transformer", "vision_transformer")
HONEST = [
    ("multi_head_attention", "stacked_heads"), ("multi_head_attention", "split_heads"),
    ("multi_head_attention", "torch_nn"), ("seq2seq_attention", "eager"), ("transformer", "eager"),
    ("vision_transformer", "eager"),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def cached_expectations() -> Iterator[None]:
    """Compute expected steps once for all tests: outside of tests only the latest is cached."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workloads, "_learned", cache(workloads._learned.__wrapped__))
        yield


@cache
def trained(name: str) -> Workload:
    """The first workload of a contract with a training step; one object for all tests, which caches its results."""
    return next(each for each in contract(name).workloads() if STEP in each.directions)


def shipped(name: str, file: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(import_module(f"attnsuite.implementations.{name}.{file}"), name)
    return function


def run_step(function: Callable[..., Any], workload: Workload, dtype: str = "float32") -> dict[str, Tensor]:
    """Rows of the result of the second of two steps of round 5."""
    task = Task(function, workload, dtype, STEP, "cpu", "hot")
    task.enter_round(5)
    task.stopwatch.sample(2)
    return task.output_rows(workload.rows(STEP, Random(1)))


@cache
def honest(name: str, file: str, dtype: str = "float32") -> dict[str, Tensor]:
    """The same of a shipped implementation, run once for all tests."""
    return run_step(shipped(name, file), trained(name), dtype)


def verdict_on(name: str, actual: dict[str, Tensor], claimed: int = 5, dtype: str = "float32") -> Verdict:
    workload = trained(name)
    return workload.verdict(dtype, STEP, claimed, workload.rows(STEP, Random(1)), actual)


def judged(function: Callable[..., Any], workload: Workload, dtype: str = "float32", claimed: int = 5) -> Verdict:
    """The verdict on a step of round 5 that is claimed to be of round `claimed`."""
    actual = run_step(function, workload, dtype)
    return workload.verdict(dtype, STEP, claimed, workload.rows(STEP, Random(1)), actual)


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_model_and_multi_head_attention_have_a_step_in_the_profile_standard(name: str) -> None:
    workload = trained(name)

    assert STEP in workload.profiles["standard"]
    assert "quick" not in workload.profiles
    assert workload.work("float32", STEP)["attended"] == 3 * workload.work("float32", "forward")["attended"]
    assert workload.work("float32", STEP)["bytes"] > workload.work("float32", "forward")["bytes"]


@pytest.mark.parametrize("name", CONTRACTS)
def test_rows_of_the_loss_and_of_every_gradient_are_compared(name: str) -> None:
    workload = trained(name)
    call = workload.call("float32", STEP, device="meta")
    weights = {**call.tensors, **call.weights}

    rows = workload.rows(STEP, Random(1))

    assert set(rows) == {LOSS, *call.gradient_of}
    assert set(call.weights) <= set(call.gradient_of)
    for gradient in call.gradient_of:
        height = weights[gradient].numel() // weights[gradient].shape[-1]
        assert len(rows[gradient]) == min(ROWS, height)
        assert max(rows[gradient]) < height


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file"), HONEST)
def test_an_honest_step_passes(name: str, file: str) -> None:
    verdict = verdict_on(name, honest(name, file))

    assert verdict.status == "passed", verdict.detail
    assert verdict.error_ratio is not None
    assert 0 < verdict.error_ratio < 0.7


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_an_honest_step_passes_in_other_dtypes(dtype: str) -> None:
    verdict = judged(shipped("multi_head_attention", "split_heads"), trained("multi_head_attention"), dtype)

    assert verdict.status == "passed", verdict.detail


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTRACTS)
def test_the_step_of_another_round_is_wrong(name: str) -> None:
    file = "split_heads" if name == "multi_head_attention" else "eager"

    assert verdict_on(name, honest(name, file), claimed=6).status == "failed"


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_wrong_or_missing_loss_or_gradient_is_named(name: str) -> None:
    workload, rows = trained(name), trained(name).rows(STEP, Random(1))
    right = honest(name, "split_heads" if name == "multi_head_attention" else "eager")

    for part in rows:
        wrong = workload.verdict("float32", STEP, 5, rows, {**right, part: 0.97 * right[part]})
        absent = workload.verdict(
            "float32", STEP, 5, rows, {other: tensor for other, tensor in right.items() if other != part}
        )
        infinite = [
            workload.verdict("float32", STEP, 5, rows, {**right, part: torch.full_like(right[part], number)})
            for number in (math.nan, math.inf)
        ]

        assert (wrong.status, wrong.detail.split(":")[0]) == ("failed", described(part))
        assert (absent.status, absent.detail) == ("failed", f"no {described(part)} was returned")
        assert [(verdict.status, verdict.error_ratio) for verdict in infinite] == [("failed", math.inf)] * 2


MISTAKES: dict[str, dict[str, Any]] = {
    "": {},
    "no row sum": {"softmax": lambda p, dp: p * dp},
    "unscaled": {"scale": lambda scale, query: 1.0},
    "turned values": {"gradients": lambda p, do, dq, dk: (dq, dk, p.mT.flip(-1) @ do)},
}
"""Changed lines of a backward pass by hand."""


def model_with(name: str, file: str, mistake: str) -> Callable[..., Any]:
    function, attention = shipped(name, file), by_hand(**MISTAKES[mistake])
    return lambda *arguments, **named: function(*arguments, **named, attention=attention)


WITH_BACKEND = [("multi_head_attention", "split_heads"), ("transformer", "eager"), ("vision_transformer", "eager")]


@pytest.mark.parametrize(("name", "file"), WITH_BACKEND)
def test_a_right_gradient_by_hand_passes(name: str, file: str) -> None:
    verdict = judged(model_with(name, file, ""), trained(name))

    assert verdict.status == "passed", verdict.detail


@pytest.mark.parametrize("mistake", ["no row sum", "unscaled", "turned values"])
@pytest.mark.parametrize(("name", "file"), WITH_BACKEND)
def test_a_wrong_gradient_of_a_right_output_fails(name: str, file: str, mistake: str) -> None:
    verdict = judged(model_with(name, file, mistake), trained(name))

    assert verdict.status == "failed"
    assert verdict.detail.startswith("gradient of "), "the loss is right"


def test_padding_has_no_loss() -> None:
    logits, words = torch.randn(2, 4, 5), torch.tensor([[1, 2, 0, 0], [3, 4, 1, 2]])
    own = torch.stack(
        [-logits.log_softmax(-1)[0, 0, 2], *(-logits.log_softmax(-1)[1, i, words[1, i + 1]] for i in range(3))]
    )

    assert next_token_loss(logits, {"target": words}).item() == pytest.approx(own.mean().item())


@pytest.mark.parametrize(
    ("detached", "says"),
    [
        (frozenset(), "no gradient reaches its weights: it is built for inference$"),
        (frozenset({"class_token", "w_patch"}), "no gradient reaches (class_token|w_patch) and 1 more of its weights"),
    ],
)
def test_weights_without_a_gradient_are_unsupported_and_named(detached: frozenset[str], says: str) -> None:
    def factory(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Callable[..., Tensor]:
        constant = detached or weights.keys()
        changed = {name: weight.detach() if name in constant else weight for name, weight in weights.items()}
        return shipped("vision_transformer", "eager")(config, changed)

    with pytest.raises(NotImplementedError, match=f"^{says}"):
        judged(factory, trained("vision_transformer"))
