"""The cases of `attention`: deterministic, buildable, sensitive, and fair where chance decides."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnsuite import cases as base
from attnsuite.contracts.attention.cases import cases
from attnsuite.contracts.attention.cases.case import AttentionCase
from attnsuite.contracts.attention.cases.several_calls import CallSequence
from attnsuite.contracts.attention.computation.call import as_attention
from attnsuite.contracts.attention.computation.forward import correct
from attnsuite.contracts.attention.contract import needs
from attnsuite.model import DTYPES

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
