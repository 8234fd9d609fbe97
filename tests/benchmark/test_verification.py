"""What was timed is held against the oracle, and the time of the processor against the cores that were given."""

from __future__ import annotations

from random import Random

import pytest
import torch
from clocks import Time
from racers import Fake, entry_of

from attnsuite.benchmark import request
from attnsuite.benchmark.entry import Excerpt
from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.benchmark.table import verify
from attnsuite.contracts import contract
from attnsuite.model import Status

CONTRACT = contract("attention")
TINY = "documents/one-sentence"


@pytest.mark.parametrize(
    ("threads", "used", "refused"), [(1, 1.3, False), (1, 1.4, True), (2, 2.5, False), (2, 2.7, True), (0, 9.0, False)]
)
def test_more_cores_than_were_given_are_seen_in_the_time_they_worked(threads: int, used: float, refused: bool) -> None:
    """A machine whose cores are all busy has none to steal, so that no test can do it for real."""
    workload = next(workload for workload in CONTRACT.workloads() if workload.name == TINY)
    table = request.Table(workload, "float32", "forward", threads, "hot")
    rows = workload.rows("forward", Random(1))
    output = {}
    for number in (3, 5):
        call = workload.call("float32")
        inputs = {**call.tensors, **workload.tensors_of_round(call, number)}
        output[number] = torch.nn.functional.scaled_dot_product_attention(*(inputs[n] for n in call.positional))
    found = {number: {"output": of.flatten(0, -2)[list(rows["output"])]} for number, of in output.items()}
    entry = entry_of(Fake("attention/a", Time()))
    entry.awake, entry.excerpt, entry.proofs = 1.0, Excerpt(3, found[3]), [Excerpt(5, found[5])]

    verify(table, entry, rows, used)

    refusal = NoResult(Status.REFUSED, f"it was given {threads} cores and used {used:.2f}")
    assert entry.failed == (refusal if refused else None)
    assert entry.took_more_cores is refused


@pytest.mark.parametrize(("used", "took"), [(1.3, False), (1.4, True)])
def test_cores_that_one_took_who_failed_are_seen_too(used: float, took: bool) -> None:
    """What it left running beside the others is no less than what one takes that is timed."""
    workload = next(workload for workload in CONTRACT.workloads() if workload.name == TINY)
    entry = entry_of(Fake("attention/a", Time()))
    entry.awake, entry.failed = 1.0, NoResult(Status.ERROR, "not today")

    verify(request.Table(workload, "float32", "forward", 1, "hot"), entry, {}, used)

    assert entry.failed == NoResult(Status.ERROR, "not today")
    assert entry.took_more_cores is took


@pytest.mark.parametrize(
    ("approximate", "off", "refused"), [(False, 0.0, False), (False, 0.5, True), (True, 0.5, False)]
)
def test_errors_that_nobody_promised_to_limit_are_kept_and_refuse_no_time(
    approximate: bool, off: float, refused: bool
) -> None:
    of = contract("transformer")
    workload = next(each for each in of.workloads() if each.name == "translator/10")
    table = request.Table(workload, "float32", "forward", 0, "hot")
    call, rows = workload.call("float32"), workload.rows("forward", Random(1))
    inputs = {**call.tensors, **workload.tensors_of_round(call, 3)}
    model = of.controls()["correct"](call.config, call.weights)
    output = model(*(inputs[name] for name in call.positional)).flatten(0, -2)[list(rows["output"])]
    entry = entry_of(Fake("transformer/a", Time()))
    entry.awake, entry.excerpt = 1.0, Excerpt(3, {"output": output * (1 + off)})

    verify(table, entry, rows, 0.0, approximate)

    assert bool(entry.failed) is refused
    if not refused:
        assert entry.relative_error["largest"] == pytest.approx(off, abs=1e-4)
        assert entry.relative_error["rms"] == pytest.approx(off, abs=1e-4)
