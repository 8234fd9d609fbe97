"""The cases of `attention`: deterministic, buildable, sensitive, and fair where chance decides."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnsuite import cases as base
from attnsuite.cases import Call, Reply
from attnsuite.contracts.attention import oracle
from attnsuite.contracts.attention.cases import cases
from attnsuite.contracts.attention.cases.case import AttentionCase, as_problem, expected_result, on_rows, sampled_rows
from attnsuite.contracts.attention.cases.several_calls import CallSequence
from attnsuite.contracts.attention.computation.call import as_attention
from attnsuite.contracts.attention.computation.forward import correct
from attnsuite.contracts.attention.contract import needs
from attnsuite.contracts.attention.oracle import Problem
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, widest
from attnsuite.model import DTYPES
from attnsuite.worker import run_calls

Array = np.ndarray[Any, Any]

correct_dense = as_attention(correct)

HALF = ("float16", "bfloat16")


@cache
def every_case() -> dict[str, base.Case]:
    return {case.name: case for case in cases()}


def plain_cases() -> list[AttentionCase]:
    return [case for case in every_case().values() if isinstance(case, AttentionCase)]


# Building


def test_every_case_has_traits_without_a_draw_of_its_numbers() -> None:
    assert all(case.traits("float32") for case in every_case().values() if isinstance(case, CallSequence))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_case_can_be_built_in_each_of_its_dtypes(dtype: str) -> None:
    for case in every_case().values():
        if dtype not in case.dtypes:
            continue
        for call in case.calls(dtype):
            assert set(call.positional) == {"query", "key", "value"}
            for name, tensor in call.tensors.items():
                assert tensor.dtype == getattr(torch, dtype) or (name == "attn_mask" and tensor.dtype == torch.bool)
                assert not tensor.requires_grad
                numbers = tensor.double()
                assert bool(
                    (numbers.isfinite() | ((numbers == -torch.inf) & (name in ("attn_mask", "sinks")))).all()
                ), case.name
            assert set(call.gradient_of) <= set(call.tensors)
            assert (call.output_gradient is not None) == bool(call.gradient_of)
            if call.output_gradient is not None:
                query, value = call.tensors["query"], call.tensors["value"]
                assert call.output_gradient.shape == (*query.shape[:-1], value.shape[-1])
            assert dtype in needs((call,))


def digest() -> str:
    """A hash of all numbers of all calls, and of their layout in memory."""
    hashed = hashlib.blake2b()
    for case in cases():
        for call in case.calls(case.dtypes[-1]):
            hashed.update(repr((case.name, dict(call.options), call.gradient_of, call.seed)).encode())
            for name, tensor in [*call.tensors.items(), ("upstream", call.output_gradient)]:
                if tensor is not None:
                    lies = name, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()
                    hashed.update(repr(lies).encode())
                    dense = tensor.clone(memory_format=torch.contiguous_format)  # of a row with strides, too
                    hashed.update(dense.view(-1).view(torch.uint8).numpy())
    return hashed.hexdigest()


@pytest.mark.slow
def test_calls_are_the_same_in_every_process_and_leave_the_global_generator_alone() -> None:
    program = "import sys; sys.path.insert(0, sys.argv[1]); import test_cases as t; print(t.digest())"
    command = [sys.executable, "-c", program, str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    torch.manual_seed(9)
    before = torch.get_rng_state()

    here, again = digest(), digest()
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert here == again == there
    assert torch.equal(before, torch.get_rng_state())


def test_numbers_depend_on_the_name_alone_and_a_narrower_dtype_rounds_them() -> None:
    made, other = AttentionCase("some/name", "one reason"), AttentionCase("some/other", "one reason")
    query = made.call("float64").tensors["query"]

    assert torch.equal(query, made.but(why="another").call("float64").tensors["query"])
    assert not torch.equal(query, other.call("float64").tensors["query"])
    for dtype in DTYPES:
        assert torch.equal(made.call(dtype).tensors["query"], query.to(getattr(torch, dtype)))


def test_only_what_is_unusual_is_passed() -> None:
    assert AttentionCase("some/name", "").call("float32").options == {}
    assert set(AttentionCase("some/name", "").call("float32").tensors) == {"query", "key", "value"}
    unusual = AttentionCase("some/name", "", heads=4, key_heads=2, scale=0.0, dropout_p=0.0, causal=True)
    assert unusual.call("float32").options == {"is_causal": True, "scale": 0.0, "dropout_p": 0.0, "enable_gqa": True}


# Inputs are sensitive


def mistakes(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """The problem with one mistake of indexing each."""
    if problem.key.shape[2] > 1:
        yield "drops the last key", replace(problem, key=problem.key[:, :, :-1], value=problem.value[:, :, :-1])
        yield "shifts the values by one", replace(problem, value=np.roll(problem.value, 1, axis=2))
        yield "leaves the scores unscaled", replace(problem, options={"scale": 1.0})
        yield "drops the last column", replace(problem, query=problem.query[..., :-1], key=problem.key[..., :-1])
        if problem.query.shape[1] > 1:
            yield "swaps the heads", replace(problem, query=problem.query[:, ::-1])
        if problem.query.shape[2] > 1:
            yield "shifts the queries by one", replace(problem, query=np.roll(problem.query, 1, axis=2))
            yield (
                "shifts the last query",
                replace(problem, query=problem.query[:, :, [*range(problem.query.shape[2] - 1), 0]]),
            )


@pytest.mark.parametrize(
    ("dtype", "far", "share"),
    [("float64", 1e6, 1.0), ("float32", 50, 1.0), ("float16", 10, 0.95), ("bfloat16", 2, 0.94)],
)
def test_mistakes_of_indexing_stand_far_above_the_bound_at_every_size(dtype: str, far: float, share: float) -> None:
    found: dict[str, list[bool]] = {}
    for case in plain_cases():
        if case.family not in ("keys", "queries"):
            continue
        problem = as_problem(case.call(dtype), {})
        for mistake, changed in mistakes(problem):
            rows = sampled_rows(problem, dtype)
            pair = (problem, changed) if rows is None else (on_rows(problem, rows), on_rows(changed, rows))
            right, actual = (oracle.attention(made, PRECISIONS[dtype], widest(dtype)).output for made in pair)
            ratio = compare.error_ratio(actual.value.astype(np.float64), right.value, right.bound)
            found.setdefault(mistake, []).append(ratio > far)

    assert len(found) == 7
    for mistake, seen in found.items():
        assert len(seen) > 50
        assert np.mean(seen) >= share, (mistake, np.mean(seen))


# Judging one reply


def reply_to(call: Call, function: Callable[..., Tensor] = correct_dense) -> Reply:
    return run_calls(function, (call,))[0]


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({}, "passed", ""),
        ({"error": "ValueError: no"}, "error", "ValueError: no"),
        ({"output": None, "kind": "tuple"}, "failed", "returned tuple, should return a Tensor"),
        ({"output": torch.zeros(2, 2, 5, 8)}, "failed", "output is float32, should be float64"),
        (
            {"output": torch.zeros(2, 5, 2, 8).double()},
            "failed",
            "output has shape (2, 5, 2, 8), should have (2, 2, 5, 8)",
        ),
        ({"gradients": {}}, "failed", "no gradient reached key"),
        ({"gradients": {"key": None}}, "failed", "no gradient reached key"),
        ({"gradients": {"key": torch.zeros(2, 2, 5, 8).double()}}, "failed", "gradient of key has shape (2, 2, 5, 8)"),
        ({"changed": ("query", "key")}, "failed", "changed its input query and key"),
        ({"aliased": ("value",)}, "failed", "the output shares memory with value"),
        ({"overwritten": True}, "failed", "a later call changed this output"),
    ],
)
def test_a_reply_is_judged_by_what_it_is_before_its_numbers(changes: dict[str, Any], status: str, says: str) -> None:
    call = AttentionCase("some/reply", "", gradient_of=("key",)).call("float64")

    verdict = expected_result(call, {}).verdict(replace(reply_to(call), **changes))

    assert verdict.status == status
    assert verdict.detail.startswith(says)
    assert not verdict.output_wrong


def test_wrong_numbers_are_measured_in_bounds_and_open_to_diagnosis() -> None:
    call = AttentionCase("some/reply", "", gradient_of=("key",)).call("float32")
    reply, expected = reply_to(call), expected_result(call, {})
    assert reply.output is not None
    assert reply.gradients["key"] is not None

    passed = expected.verdict(reply)
    output = expected.verdict(replace(reply, output=reply.output * 1.01))
    gradient = expected.verdict(replace(reply, gradients={"key": reply.gradients["key"] * 1.01}))

    assert passed.error_ratio is not None
    assert 0 < passed.error_ratio < 1
    for verdict, name in ((output, "output["), (gradient, "gradient of key[")):
        assert verdict.status == "failed"
        assert verdict.output_wrong
        assert verdict.detail.startswith(name)
        assert verdict.error_ratio is not None
        assert verdict.error_ratio > 1


def test_nan_never_passes_not_even_in_rows_that_are_not_sampled() -> None:
    call = AttentionCase("some/long", "", batch=1, heads=1, queries=700, keys=300).call("float32")
    reply, expected = reply_to(call), expected_result(call, {})
    assert reply.output is not None
    assert expected.rows is not None
    assert expected.verdict(reply).status == "passed"

    for row in (0, next(row for row in range(700) if row not in expected.rows)):
        spoilt = reply.output.clone()
        spoilt[0, 0, row, 3] = torch.nan
        verdict = expected.verdict(replace(reply, output=spoilt))
        assert verdict.status == "failed"
        assert verdict.output_wrong
