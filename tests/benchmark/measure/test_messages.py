"""Answers of a process that runs a submission's code are checked by their annotations."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from attnsuite.benchmark.measure.messages import (
    Acknowledgement,
    CallMemory,
    Ceilings,
    Energy,
    NoResult,
    OutputRows,
    PreparedTask,
    ReplyLayout,
    RoundInputs,
    SampleTime,
    decode,
)  # fmt: skip
from attnsuite.model import Status
from attnsuite.model.rows import METERS

NOTHING = dict.fromkeys(METERS, 0.0)
HONEST = {"making": {}, "first_call": 1.0, "warm_up": 0.1, "expected": 0.001, "calls": 5}


@pytest.mark.parametrize(
    ("kind", "data", "where"),
    [
        *((SampleTime, {"seconds": seconds, "made": 0.0}, "$.seconds") for seconds in (0.0, -1.0, math.nan, math.inf)),
        *((SampleTime, {"seconds": seconds, "made": 0.0}, "$.seconds") for seconds in ("fast", True, 5e-324, 1e300)),
        (RoundInputs, {"warmed": -1.0}, "$.warmed"),
        (RoundInputs, {"warmed": torch.zeros(2)}, "$.warmed"),
        (RoundInputs, {"warmed": math.nan}, "$.warmed"),
        (SampleTime, {"seconds": 1.0, "made": -1.0}, "$.made"),
        (SampleTime, {}, "`seconds`"),
        *((PreparedTask, {**HONEST, "calls": calls}, "$.calls") for calls in (0, 10**30, 2.5)),
        (PreparedTask, {**HONEST, "making": {"factory": -1.0}}, "$.making[...]"),
        (PreparedTask, {**HONEST, "first_call": None}, "$.first_call"),
        (PreparedTask, {**HONEST, "expected": 0.0}, "$.expected"),
        (OutputRows, {"rows": {"output": [1.0]}}, "$.rows[...]"),
        (OutputRows, {"rows": [torch.ones(1)]}, "$.rows"),
        (OutputRows, {"rows": None}, "$.rows"),
        *(
            (CallMemory, {"memory": {**NOTHING, "output": size}, "kernel": "", "spent": False}, "$.memory[...]")
            for size in ("much", math.nan, -1e9, 10**400, True)
        ),
        (CallMemory, {"memory": {}, "kernel": "", "spent": False}, "meters []"),
        (CallMemory, {"memory": {**NOTHING, "more": 1.0}, "kernel": "", "spent": False}, "meters ["),
        (CallMemory, {"memory": NOTHING, "kernel": 3, "spent": False}, "$.kernel"),
        (ReplyLayout, {"layout": None}, "$.layout"),
        *(
            (ReplyLayout, {"layout": [place]}, "$.layout[0]")
            for place in (
                ["output", "float32", [2]],
                ["output", "float3", [2, 2]],
                ["output", [], [2, 2]],
                [3, "float32", [2, 2]],
                ["output", "float32", [2, -2]],
                ["output", "float32", [2, 2.5]],
            )
        ),
        (Energy, {"telemetry": 3.0}, "$.telemetry"),
        (Ceilings, {"ceilings": [1.0]}, "$.ceilings"),
        *((SampleTime, {"status": status, "detail": ""}, "status") for status in ("measured", "excellent", ["error"])),
        (SampleTime, {"status": "error", "detail": 7}, "$.detail"),
        (SampleTime, {"status": "error"}, "`detail`"),
    ],
)
def test_an_answer_of_another_form_is_refused(kind: type[Any], data: dict[str, Any], where: str) -> None:
    failed = decode(kind, data)

    assert isinstance(failed, NoResult)
    assert failed.status == "refused"
    assert failed.detail.startswith("invalid reply: ")
    assert where in failed.detail
    assert f"got {data!r}"[:80] in failed.detail, "what is wrong is shown"


def test_an_answer_that_is_no_record_at_all_is_a_death() -> None:
    assert decode(Acknowledgement, None) == NoResult(Status.CRASHED, "invalid reply: None")


def test_of_a_failure_nothing_is_believed_but_status_and_detail() -> None:
    data = {"status": "error", "detail": "ValueError", "seconds": (1.0,), "known": "a finding"}

    assert decode(SampleTime, data) == NoResult(Status.ERROR, "ValueError")
