"""Workloads of attention: their calls, their cost in operations and bytes, and the verdicts on results."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnsuite.contracts import contract, names
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.contracts.attention.workloads import VERIFIED_SCORES, Workload
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import PASSES, PROFILES

CONTRACT = contract("attention")
WORKLOADS = {workload.name: workload for workload in CONTRACT.workloads()}
each_workload = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
each_direction = pytest.mark.parametrize("direction", PASSES)


@pytest.mark.slow
def test_every_module_of_a_workload_is_imported_in_advance() -> None:
    program = """
import sys

import attnsuite.benchmark.measure.bench
from attnsuite.contracts import contract, names, modules_of_workloads

for name in ["no contract", *names()]:
    for module in modules_of_workloads([name]):
        __import__(module)
    before = set(sys.modules)
    for workload in contract(name).workloads()[:1] if name in names() else ():
        workload.call("float32", "forward")
    print(name, set(sys.modules) - before)
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines() == [f"{name} set()" for name in ("no contract", *names())]


SMALL = Workload("test/small", "every kind of size", 65, 130, 16, 4, key_heads=2, batch=2, causal=True)
TINY = WORKLOADS["documents/one-sentence"]
LONG = WORKLOADS["ladder/1k"]

Kernel = Callable[..., Tensor]


def results(
    workload: Workload, dtype: str, direction: str, number: int, kernel: Kernel = sdpa, **changed: Tensor
) -> dict[str, Tensor]:
    """The output and gradients of a function in one round, flattened to two axes."""
    call = workload.call(dtype, direction)
    inputs = {**call.tensors, **workload.tensors_of_round(call, number), **changed}
    for name in call.gradient_of:
        inputs[name] = inputs[name].clone().requires_grad_(True)
    masks = {name: tensor for name, tensor in inputs.items() if name not in call.positional}
    output = kernel(*(inputs[name] for name in call.positional), **masks, **call.options)
    tensors = {"output": output.detach()}
    if call.gradient_of:
        leaves = [inputs[name] for name in call.gradient_of]
        gradients = torch.autograd.grad(output, leaves, call.output_gradient)
        tensors |= dict(zip(call.gradient_of, gradients, strict=True))
    return {name: tensor.flatten(0, -2) for name, tensor in tensors.items()}


def verdict_of(
    workload: Workload,
    kernel: Kernel = sdpa,
    dtype: str = "float32",
    direction: str = "forward",
    *,
    number: int = 3,
    claimed: int | None = None,
    change: Callable[[dict[str, Tensor]], Any] = lambda tensors: None,
) -> Verdict:
    """The verdict on the results of one round, claimed to be those of the same or another one."""
    rows = workload.rows(direction, Random(number))
    every_row = results(workload, dtype, direction, number, kernel)
    tensors = {name: every_row[name][list(places)] for name, places in rows.items()}
    change(tensors)
    return workload.verdict(dtype, direction, number if claimed is None else claimed, rows, tensors)


# Names and calls


def test_workloads_have_unique_names_in_known_groups_reasons_profiles_and_dtypes() -> None:
    assert len(WORKLOADS) == len(CONTRACT.workloads())
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*/[a-z0-9-]+", name) for name in WORKLOADS)
    assert {workload.group for workload in WORKLOADS.values()} == {
        "documents", "vit", "decode", "ladder", "float32", "flash", "flash-small",
    }  # fmt: skip
    for workload in WORKLOADS.values():
        assert workload.why
        assert set() < set(workload.profiles) <= set(PROFILES), workload.name
        assert set(workload.cores) <= set(PROFILES), workload.name
        assert any(workload.dtypes.values()), "it is timed somewhere"
        assert workload.length == max(workload.queries, workload.keys)
        assert f"width {workload.width}" in workload.shape


@each_workload
@each_direction
def test_a_call_on_meta_has_the_shapes_of_the_workload(workload: Workload, direction: str) -> None:
    call = workload.call("float16", direction, device="meta")

    shapes = {name: tuple(tensor.shape) for name, tensor in call.tensors.items()}
    keys = (workload.batch, workload.key_heads or workload.heads, workload.keys, workload.width)
    queries = (workload.batch, workload.heads, workload.queries, workload.width)
    assert shapes == {"query": queries, "key": keys, "value": keys}
    assert {tensor.dtype for tensor in call.tensors.values()} == {torch.float16}
    assert (call.output_gradient is None) == (direction == "forward")
    assert call.gradient_of == (() if direction == "forward" else ("query", "key", "value"))
    assert CONTRACT.needs((call,)) - {"large"} == {
        "float16",
        *(["causal"] if workload.values.get("causal") else []),
        *(["gqa"] if "key_heads" in workload.values else []),
        *(["gradient"] if direction != "forward" else []),
    }


@pytest.mark.parametrize("name", ["documents/encoder-block", "decode/8k-grouped", "flash-small/512-e64-causal"])
@each_direction
def test_a_call_with_data_equals_the_call_on_meta(name: str, direction: str) -> None:
    workload = WORKLOADS[name]

    real, meta = (workload.call("bfloat16", direction, device=device) for device in ("cpu", "meta"))

    assert {n: (t.shape, t.dtype) for n, t in real.tensors.items()} == {
        n: (t.shape, t.dtype) for n, t in meta.tensors.items()
    }
    assert (real.options, real.arguments, real.gradient_of) == (meta.options, meta.arguments, meta.gradient_of)
    assert CONTRACT.needs((real,)) == CONTRACT.needs((meta,))


def test_inputs_depend_on_the_workload_alone_and_are_those_of_the_first_round() -> None:
    first, again, other = TINY.call("float32"), TINY.call("float32"), TINY.but(name="test/other").call("float32")

    assert all(torch.equal(first.tensors[name], again.tensors[name]) for name in first.tensors)
    assert not torch.equal(first.tensors["query"], other.tensors["query"])
    backward = TINY.call("float32", "backward")
    assert all(torch.equal(first.tensors[name], backward.tensors[name]) for name in first.tensors)
    assert torch.equal(TINY.tensors_of_round(first, 0)["query"], first.tensors["query"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "workload",
    [w for w in WORKLOADS.values() if w.batch * w.heads * max(w.queries, w.keys) <= 2**17],
    ids=lambda w: w.name,
)
def test_the_first_rounds_have_different_inputs(workload: Workload) -> None:
    """A stored output must not be correct in another round."""
    call = workload.call("float32")

    rounds = [workload.tensors_of_round(call, number)["query"] for number in range(40)]

    assert all(round.shape == call.tensors["query"].shape for round in rounds)
    different = {round.numpy().tobytes() for round in rounds}
    assert len(different) == len(rounds)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_workload_may_have_a_mask(kind: str) -> None:
    workload = Workload("test/masked", "", 10, 40, 4, 2, mask=Mask(kind, "early"))

    meta, real = workload.call("float32", device="meta"), workload.call("float32")

    assert CONTRACT.needs((meta,)) == {"float32", f"{kind}_mask", "empty_row"}, "a mask without numbers may leave one"
    assert CONTRACT.needs((real,)) == {"float32", f"{kind}_mask"}
    assert workload.work("float32", "forward")["attended"] == 4 * 4 * 2 * 5 * 10
    assert f"{kind} mask" in workload.shape
    assert verdict_of(workload).status == "passed"


def test_a_workload_may_have_a_window() -> None:
    workload = Workload("test/window", "", 100, 100, 4, 2, window=(9, 0))

    assert workload.work("float32", "forward")["attended"] == 4 * 4 * 2 * sum(min(i, 9) + 1 for i in range(100))
    assert "window (9, 0)" in workload.shape
    assert CONTRACT.needs((workload.call("float32", device="meta"),)) == {"float32", "window", "large"}


# Costs


@pytest.mark.parametrize(
    ("name", "attended", "bytes_moved"),
    [
        ("documents/one-sentence", 4 * 6 * 6 * 2, 4 * (6 * 2) * 4),
        ("documents/encoder-block", 1_920_000, 4 * (2 * 8 * 100 * 3) * 4),
        ("decode/1k", 4_194_304, (2 * 16 * 64 + 2 * 16 * 1024 * 64) * 4),
        ("decode/8k-grouped", 4 * 16 * 8192 * 64, (2 * 16 * 64 + 2 * 4 * 8192 * 64) * 4),
        ("flash-small/512-e64-causal", 4 * 4 * 4 * 64 * (512 * 513 // 2), 4 * (4 * 4 * 512 * 64) * 4),
    ],
)
def test_operations_and_bytes_equal_those_counted_by_hand(name: str, attended: int, bytes_moved: int) -> None:
    work = WORKLOADS[name].work("float32", "forward")

    assert (work["attended"], work["bytes"]) == (attended, bytes_moved)


@pytest.mark.parametrize(("queries", "keys"), [(3, 3), (3, 5), (5, 3), (1, 9)])
def test_causal_pairs_are_counted(queries: int, keys: int) -> None:
    workload = Workload("test/causal", "", queries, keys, width=1, causal=True)

    assert workload.work("float32", "forward")["attended"] == 4 * torch.ones(queries, keys).tril().sum()


@each_workload
def test_operations_follow_the_convention(workload: Workload) -> None:
    """4·b·h·l·s·e, half of it when causal, 2.5 times for a backward: as FlashAttention's authors count."""
    forward, backward, both = (workload.work("float16", direction) for direction in PASSES)

    dense = 4 * workload.batch * workload.heads * workload.queries * workload.keys * workload.width
    assert forward["convention"] == (dense / 2 if workload.values.get("causal") else dense)
    assert forward["attended"] == pytest.approx(
        forward["convention"], rel=1 / workload.keys if workload.values.get("causal") else 0
    )
    for kind in ("attended", "convention"):
        assert backward[kind] == 2.5 * forward[kind]
        assert both[kind] == 3.5 * forward[kind]
    assert backward["bytes"] == both["bytes"] == 2 * forward["bytes"]
    assert workload.work("float32", "forward")["bytes"] == 2 * forward["bytes"]


# Rows


@each_workload
@each_direction
def test_rows_exist_and_are_different(workload: Workload, direction: str) -> None:
    rows = workload.rows(direction, Random(1))

    queries = workload.batch * workload.heads * workload.queries
    keys = workload.batch * (workload.key_heads or workload.heads) * workload.keys
    assert set(rows) <= {"output", "query", "key", "value"}
    assert ("output" in rows) == (direction != "backward"), "a backward alone has no output"
    assert ("query" in rows) == (direction != "forward")
    for name, places in rows.items():
        assert len(set(places)) == len(places) > 0
        assert all(0 <= place < (queries if name in ("output", "query") else keys) for place in places)
    assert workload.rows(direction, Random(2)) != rows or workload.queries * workload.heads * workload.batch < 32


@each_direction
def test_the_last_query_is_always_compared(direction: str) -> None:
    """Its tile is the ragged one, and with a causal mask it alone sees all keys."""
    for seed in range(20):
        rows = LONG.rows(direction, Random(seed))

        assert LONG.queries - 1 in rows.get("output", rows.get("query", ()))


def test_gradients_of_keys_and_values_are_compared_where_the_oracle_is_affordable() -> None:
    compared = {w.name for w in WORKLOADS.values() if "key" in w.rows("backward", Random(0))}

    assert {"documents/fashion-vit", "vit/b16", "ladder/1k", "decode/8k", "flash-small/1k-e64"} <= compared
    assert all(
        WORKLOADS[name].groups * WORKLOADS[name].queries * WORKLOADS[name].keys <= VERIFIED_SCORES for name in compared
    )


# Correct results


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("workload", [SMALL, TINY, WORKLOADS["documents/fashion-vit"]], ids=lambda w: w.name)
@each_direction
def test_a_correct_result_passes(workload: Workload, direction: str, dtype: str) -> None:
    workload = workload.but(batch=min(workload.batch, 4))  # the same in less time

    verdict = verdict_of(workload, dtype=dtype, direction=direction)

    assert verdict.status == "passed", verdict.detail
    assert verdict.error_ratio is not None
    assert 0 < verdict.error_ratio < 2


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("decode/8k", "float32"),
        ("decode/8k-grouped", "bfloat16"),
        ("ladder/4k", "bfloat16"),
        ("flash-small/1k-e128-causal", "float32"),
        ("vit/b16-batch8", "float16"),
    ],
)
def test_a_correct_result_of_real_size_passes(name: str, dtype: str) -> None:
    assert verdict_of(WORKLOADS[name], dtype=dtype).status == "passed"


# Wrong results


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("workload", [SMALL, TINY], ids=lambda w: w.name)
@each_direction
def test_the_result_of_another_round_fails(workload: Workload, direction: str, dtype: str) -> None:
    for claimed in (0, 2, 4):
        verdict = verdict_of(workload, dtype=dtype, direction=direction, number=3, claimed=claimed)

        assert verdict.status == "failed"


def last_element_off(rows: Tensor) -> Tensor:
    changed = rows.clone()
    changed[-1, -1] += 2
    return changed


WRONG: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "zeros": (torch.zeros_like, ""),
    "3 % off": (lambda rows: 0.97 * rows, ""),
    "one element": (last_element_off, ""),
    **{str(number): (partial(torch.full_like, fill_value=number), "") for number in (math.nan, math.inf, -math.inf)},
    "narrower": (lambda rows: rows[:, :-1], "shape"),
    "fewer rows": (lambda rows: rows[:-1], "shape"),
    "one row": (lambda rows: rows[0], "shape"),
    "transposed": (lambda rows: rows.mT, "shape"),
    "an axis more": (lambda rows: rows[None], "shape"),
    "nothing": (lambda rows: rows[:, :0], "shape"),
    "another dtype": (torch.Tensor.double, "is float64, should be float32"),
}
"""By name, a change of the sampled rows of a tensor, and what the complaint says besides the tensor's name."""


@pytest.mark.parametrize("name", ["output", "query", "key", "value"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_tensor_is_named(wrong: str, name: str) -> None:
    change, says = WRONG[wrong]

    def changed(tensors: dict[str, Tensor]) -> None:
        tensors[name] = change(tensors[name])

    verdict = verdict_of(SMALL, direction="forward_backward", change=changed)

    assert verdict.status == "failed"
    assert name in verdict.detail
    assert says in verdict.detail
    assert says or (verdict.error_ratio or 0) > 2


def without_a_block(query: Tensor, key: Tensor, value: Tensor, **options: bool) -> Tensor:
    """Drops 64 keys in the middle, as a loop over blocks with a wrong bound does."""
    places = [*range(512), *range(576, key.shape[-2])]
    return sdpa(query, key[..., places, :], value[..., places, :], **options)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@each_direction
def test_one_dropped_block_of_keys_fails(direction: str, dtype: str) -> None:
    assert verdict_of(LONG, without_a_block, dtype, direction).status == "failed"


def of_sampled_rows(workload: Workload, dtype: str, kernel: Kernel) -> Verdict:
    """The verdict on the sampled rows alone, so that long workloads cost little."""
    rows = workload.rows("forward", Random(1))
    call = workload.call(dtype)
    query, key, value = (workload.tensors_of_round(call, 1)[name].flatten(0, -2) for name in ("query", "key", "value"))
    output = kernel(query[list(rows["output"])], key, value)
    return workload.verdict(dtype, "forward", 1, rows, {"output": output})


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["ladder/4k", "ladder/16k"])
def test_cheap_substitutes_for_attention_to_many_keys_fail(name: str, dtype: str) -> None:
    """Outputs shrink with the number of keys: with equal weights the mean of the values is right within bfloat16."""
    workload = WORKLOADS[name]

    assert of_sampled_rows(workload, dtype, sdpa).status == "passed"
    for substitute in (
        lambda query, key, value: value.mean(-2, keepdim=True).expand_as(query),
        lambda query, key, value: sdpa(query, key[::2], value[::2]),
        lambda query, key, value: sdpa(query, key[-2048:], value[-2048:]),
        lambda query, key, value: torch.zeros_like(query),
    ):
        assert of_sampled_rows(workload, dtype, substitute).status == "failed"


@each_direction
def test_missing_tensors_are_named(direction: str) -> None:
    for name in SMALL.rows(direction, Random(3)):
        verdict = verdict_of(SMALL, direction=direction, change=lambda tensors, name=name: tensors.pop(name))

        assert (verdict.status, verdict.detail) == ("failed", f"{name} missing from the reply")
