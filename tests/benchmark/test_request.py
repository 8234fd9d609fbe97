"""Requests of benchmarks, and their tables."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from attnsuite.benchmark import processes, request
from attnsuite.benchmark.request import Request
from attnsuite.cases import Call
from attnsuite.contracts import contract
from attnsuite.contracts.attention.workloads import Workload
from attnsuite.model import UsageError
from attnsuite.registry import Declaration

CONTRACT = contract("attention")
TINY = "documents/one-sentence"


def test_a_request_in_words_names_a_profile_only_where_there_is_one() -> None:
    assert Request().words == "bench on cpu, profile quick"
    assert Request(shapes=("l=64",)).words == "bench on cpu, shape l=64"


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ("l=4294967296,e=1,mask=float", "its inputs take more than 8.59e+09 GiB in float32; a process that is timed "),
        ("h=4,l=1048576,e=64", "its inputs take 3 GiB in float32; a process that is timed may take 2 GiB; choose "),
    ],
)
def test_a_shape_beyond_memory_is_refused_with_its_size_and_the_limit(
    shape: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "memory_limit", lambda: 2**31)

    with pytest.raises(UsageError, match=f"^--shape '{shape}': {re.escape(says)}"):
        Request(shapes=(shape,)).tables(CONTRACT)
    assert Request(shapes=("h=4,l=524288",)).tables(CONTRACT)


@pytest.mark.parametrize(
    ("asked", "budget", "slowest"),
    [
        ({}, 0.3, 1.0),
        ({"workloads": (TINY,)}, 0.3, 5.5),
        ({"shapes": ("l=64",)}, 0.3, 5.5),
        ({"workloads": (TINY,), "profile": "standard"}, 2.5, 5.5),
        ({"workloads": (TINY,), "budget": 2.5}, 2.5, 5.5),
    ],
)
def test_named_workloads_have_the_budget_of_quick_by_default(
    asked: dict[str, Any], budget: float, slowest: float
) -> None:
    assert (Request(**asked).seconds, Request(**asked).slowest) == (budget, slowest)


def test_a_group_is_its_part_of_the_usual_profile() -> None:
    ladder = {table.workload.name for table in Request(("ladder",)).tables(CONTRACT)}

    assert ladder == {w.name for w in CONTRACT.workloads() if w.group == "ladder" and "standard" in w.profiles}
    assert "ladder/64k" not in ladder
    assert [table.workload.name for table in Request(("ladder/64k",)).tables(CONTRACT)] == ["ladder/64k"]
    assert "ladder/64k" in {table.workload.name for table in Request(("ladder/*",)).tables(CONTRACT)}


def test_tables_of_one_thread_count_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "cores", lambda: [0, 1, 2, 3])

    tables = Request(("vit",), threads=(2, 1)).tables(CONTRACT)

    assert [table.threads for table in tables] == sorted(table.threads for table in tables)
    assert {table.threads for table in tables} == {1, 2}
    assert len(tables) == 2 * len(Request(("vit",), threads=(1,)).tables(CONTRACT))


def test_backward_is_timed_alone_and_together_with_forward() -> None:
    tables = Request((TINY,), backward=True).tables(CONTRACT)

    assert [table.direction for table in tables] == ["forward", "backward", "forward_backward"]


def test_a_training_step_is_timed_with_forward() -> None:
    tables = Request(("translator/10",), step=True).tables(contract("seq2seq_attention"))

    assert [table.direction for table in tables] == ["forward", "step"]
    assert tables[1].title == "translator/10 step"


def test_cores_are_one_thread_of_each_physical_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Siblings lie side by side on some machines and far apart on others."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 6, 7})

    monkeypatch.setattr(processes, "_siblings", lambda core: f"{core // 2 * 2}-{core // 2 * 2 + 1}")
    assert processes.cores() == [0, 2, 6]
    monkeypatch.setattr(processes, "_siblings", lambda core: f"{core % 4},{core % 4 + 4}")
    assert processes.cores() == [0, 1, 2, 3]


class Masked(Workload):
    """A workload of attention whose calls carry a mask."""

    mask = torch.ones(6, 6, dtype=torch.bool).tril()

    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        plain = super().call(dtype, direction, device=device)
        return replace(plain, tensors={**plain.tensors, "attn_mask": self.mask})


@pytest.mark.parametrize(
    ("mask", "needs_empty_row"),
    [
        (torch.ones(6, 6, dtype=torch.bool).tril(), False),
        (torch.ones(6, 6, dtype=torch.bool).tril(-1), True),
        (torch.zeros(6, 6), False),
        (torch.zeros(6, 6, device="meta"), True),
    ],
)
def test_the_features_of_a_workload_s_mask_are_known_in_advance(
    mask: torch.Tensor, needs_empty_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Masked, "mask", mask)
    tiny = Masked("tiny/masked", "a mask", 6, 6, 2)
    (table,) = Request(("tiny",)).tables(replace(CONTRACT, workloads=lambda: [tiny]))
    kind = "float_mask" if mask.dtype.is_floating_point else "bool_mask"

    assert table.features(CONTRACT) - {"float32"} == {kind, *({"empty_row"} if needs_empty_row else ())}
    without = Declaration("attention", "without", "attention", lacks={"empty_row": "no zeros"})
    assert bool(table.unsupported(without, CONTRACT, "cpu")) == needs_empty_row
