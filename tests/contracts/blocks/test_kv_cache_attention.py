"""The contract `kv_cache_attention`: chunks agree with one pass, and the caches after a call are judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import case_named

from attnsuite.cases import Call
from attnsuite.contracts import contract
from attnsuite.contracts.blocks.kv_cache_attention.case import CACHES, CacheCase, expected
from attnsuite.judging.compare import difference, other_bits
from attnsuite.model import Status
from attnsuite.worker.worker import Worker
from tests.workers import answered

APPEND = CacheCase("append/inside_another", "slices of larger caches", append=True, layout="inside_another")
SUBMISSION = """
from attnsuite.implementations.kv_cache_attention.matmul import kv_cache_attention as correct


def kv_cache_attention(query, key_cache, value_cache, cache_seqlens, *, key=None, value=None):
    {line}
    return correct(query, key_cache, value_cache, cache_seqlens, key=key, value=value)
"""
"""A correct function after one line."""


@pytest.mark.parametrize("name", ["again/prefill", "again/ragged", "again/decode_paged", "again/window"])
def test_chunks_have_the_output_and_the_caches_of_one_pass(name: str) -> None:
    case = case_named("kv_cache_attention", name)
    calls = case.calls("float64")
    joined = {part: torch.cat([call.tensors[part] for call in calls], 1) for part in ("query", "key", "value")}
    whole = expected(replace(calls[0], tensors={**calls[0].tensors, **joined}))
    chunks = [expected(call) for call in calls]

    bound = np.full(whole.numbers.shape, 1e-12)
    assert difference(np.concatenate([chunk.numbers for chunk in chunks], 1), whole.numbers, bound) is None
    assert [other_bits(chunks[-1].state[cache], whole.state[cache], cache) for cache in CACHES] == ["", ""]


def complaint(folder: Path, line: str, call: Call) -> str:
    """The verdict on a function that executes this line first, in a process of its own."""
    file = folder / "submitted.py"
    file.write_text(SUBMISSION.format(line=line))
    due = expected(call)
    with Worker(f"{file}:kv_cache_attention") as worker:
        (reply,) = answered(worker.run_calls([call]))
    verdict = due.verdict(reply)
    return "" if verdict.status == Status.PASSED else verdict.detail


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("pass", ""),
        ("key_cache = key_cache.clone()", "key_cache[0, 5, 0, 0] is 50, should be"),
        ("value_cache.data = value_cache.data.clone()", "value_cache[0, 5, 0, 0] is 50, should be"),
        ("key_cache[1, 11] = 0", "key_cache[1, 11, 0, 0] is 0, should be 50"),
        ("value_cache.as_strided((1,), (1,), 0).zero_()", "the memory around value_cache was written"),
        ("cache_seqlens += 0; query.add_(1)", "changed its input query"),
    ],
)
def test_the_caches_after_a_call_are_judged_bit_for_bit(tmp_path: Path, line: str, says: str) -> None:
    detail = complaint(tmp_path, line, APPEND.call("float32"))

    assert detail.startswith(says)
    assert bool(detail) == bool(says)


def test_a_nan_that_stays_is_equal_and_another_nan_is_not() -> None:
    nan = torch.tensor([[float("nan"), 1.0]])
    other = nan.clone()
    other.view(torch.int32)[0, 0] += 1

    assert other_bits(nan, nan.clone(), "x") == ""
    assert other_bits(other, nan, "x").startswith("x[0, 0] is nan, should be nan after the call, in every bit (1 of 2")


def test_entries_of_a_block_table_beyond_the_end_of_an_item_are_no_pages() -> None:
    call = CacheCase("paged/usual", "", valid=(5, 9), page=4).call("float32")
    table = call.tensors["block_table"].tolist()

    assert table[0][2] == -1
    assert max(map(max, table)) < len(call.tensors["key_cache"])
    assert contract("kv_cache_attention").needs([call]) >= {"paged", "ragged"}
