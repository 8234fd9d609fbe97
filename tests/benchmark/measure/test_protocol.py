"""What comes from a process that runs somebody's code is checked field by field."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from attnsuite.benchmark.measure.protocol import (
    Ceilings,
    Done,
    Energy,
    Entered,
    Exchanged,
    Failed,
    Found,
    Prepared,
    Rehearsed,
    Sampled,
    Weighed,
    read,
    written,
)
from attnsuite.model import Status
from attnsuite.model.measurement import METERS

NOTHING_TAKEN = dict.fromkeys(METERS, 0.0)


HONEST = {"making": {}, "first_call": 1.0, "warm_up": 0.1, "expected": 0.001, "calls": 5}


@pytest.mark.parametrize(
    ("kind", "data", "detail"),
    [
        (Sampled, {"seconds": 0.0, "made": 0.0}, "seconds 0.0"),
        (Sampled, {"seconds": -1.0, "made": 0.0}, "seconds -1.0"),
        (Sampled, {"seconds": math.nan, "made": 0.0}, "seconds nan"),
        (Sampled, {"seconds": math.inf, "made": 0.0}, "seconds inf"),
        (Sampled, {"seconds": "fast", "made": 0.0}, "seconds 'fast'"),
        (Sampled, {"seconds": True, "made": 0.0}, "seconds True"),
        (Entered, {"warmed": -1.0}, "warmed -1.0"),
        (Entered, {"warmed": torch.zeros(2)}, "warmed tensor("),
        (Sampled, {"seconds": 1.0, "made": -1.0}, "made -1.0"),
        (Sampled, {}, "seconds None"),
        (Sampled, {"seconds": 5e-324, "made": 0.0}, "seconds 5e-324"),
        (Sampled, {"seconds": 1e300, "made": 0.0}, "seconds 1e+300"),
        (Prepared, {**HONEST, "calls": 0}, "calls 0"),
        (Prepared, {**HONEST, "calls": 10**30}, f"calls {10**30}"),
        (Prepared, {**HONEST, "making": {"factory": -1.0}}, "making {'factory': -1.0}"),
        (Prepared, {**HONEST, "calls": 2.5}, "calls 2.5"),
        (Prepared, {**HONEST, "first_call": None}, "first_call None"),
        (Prepared, {**HONEST, "expected": 0.0}, "expected 0.0"),
        (Found, {"rows": {"output": [1.0]}}, "rows {'output': [1.0]}"),
        (Found, {"rows": None}, "rows None"),
        (Weighed, {"memory": {"resident": "much"}, "kernel": "", "spent": False}, "memory {'resident': 'much'}"),
        (Weighed, {"memory": {}, "kernel": "", "spent": False}, "memory {}"),
        (Weighed, {"memory": {**NOTHING_TAKEN, "more": 1.0}, "kernel": "", "spent": False}, "memory {"),
        (Weighed, {"memory": {**NOTHING_TAKEN, "output": math.nan}, "kernel": "", "spent": False}, "memory {"),
        (Weighed, {"memory": {**NOTHING_TAKEN, "output": -1e9}, "kernel": "", "spent": False}, "memory {"),
        (Weighed, {"memory": {**NOTHING_TAKEN, "output": 10**400}, "kernel": "", "spent": False}, "memory {"),
        (Weighed, {"memory": {**NOTHING_TAKEN, "output": True}, "kernel": "", "spent": False}, "memory {"),
        (Weighed, {"memory": NOTHING_TAKEN, "kernel": 3, "spent": False}, "kernel 3"),
        (Exchanged, {"layout": None}, "layout None"),
        (Exchanged, {"layout": [["output", "float32", [2]]]}, "layout [["),
        (Exchanged, {"layout": [["output", "float3", [2, 2]]]}, "layout [["),
        (Exchanged, {"layout": [["output", [], [2, 2]]]}, "layout [["),
        (Exchanged, {"layout": [[3, "float32", [2, 2]]]}, "layout [["),
        (Exchanged, {"layout": [["output", "float32", [2, -2]]]}, "layout [["),
        (Exchanged, {"layout": [["output", "float32", [2, 2.0]]]}, "layout [["),
        (Found, {"rows": [torch.ones(1)]}, "rows [tensor("),
        (Found, {"rows": {"output": 1.0}}, "rows {'output': 1.0}"),
        (Energy, {"telemetry": 3.0}, "telemetry 3.0"),
        (Ceilings, {"ceilings": [1.0]}, "ceilings [1.0]"),
        (Sampled, {"status": "measured", "detail": ""}, "status 'measured'"),
        (Sampled, {"status": "excellent", "detail": ""}, "status 'excellent'"),
        (Sampled, {"status": "raised", "detail": 7}, "status 'raised'"),
        (Sampled, {"status": "raised"}, "status 'raised'"),
        (Sampled, {"status": ["raised"], "detail": ""}, "status ['raised']"),
    ],
)
def test_an_answer_that_is_none_is_refused(kind: type[Any], data: dict[str, Any], detail: str) -> None:
    failed = read(kind, data)

    assert isinstance(failed, Failed)
    assert failed.status == "refused"
    assert failed.detail.startswith(f"answered garbage: {detail}")


def test_an_answer_that_is_no_record_at_all_is_a_death() -> None:
    assert read(Done, None) == Failed(Status.DIED, "answered garbage: None")


@pytest.mark.parametrize(
    "answer",
    [
        Prepared({"factory": 0.5}, 1.0, 0.1, 0.001, 5),
        Entered(0.0),
        Sampled(1e-9, 0.0),
        Weighed({**NOTHING_TAKEN, "retained": 1.5, "driver": None}, "", spent=True),
        Found({"output": torch.ones(1)}),
        Ceilings({"flops": 1e12}),
        Rehearsed(True),
        Exchanged([["output", "float32", [6, 2]]]),
        Done(),
        Failed(Status.RAISED, "ValueError"),
    ],
)
def test_an_answer_is_read_as_it_was_written(answer: Any) -> None:
    kind = Done if isinstance(answer, Failed) else type(answer)

    assert read(kind, written(answer)) == answer


def test_of_a_failure_nothing_is_believed_but_status_and_detail() -> None:
    said = {"status": "raised", "detail": "ValueError", "seconds": (1.0,), "known": "a finding"}

    assert read(Sampled, said) == Failed(Status.RAISED, "ValueError")
