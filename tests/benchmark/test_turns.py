"""Inputs that are handed over in turns: what a participant answers to them, and in which time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from workers import LINUX

from attnsuite import registry
from attnsuite.benchmark.entry import ProofTimes
from attnsuite.benchmark.measure.messages import Job, PreparedTask
from attnsuite.benchmark.participant import Participant
from attnsuite.cases.tensors import SECRET_NUMBERS
from attnsuite.contracts import contract

JOB = Job("attention", "documents/one-sentence", "float32", "forward")
WORKLOAD = contract(JOB.contract).workload(JOB.workload)
NUMBERS = SECRET_NUMBERS[77:82]
SUBMISSION = """
import os, sys, time
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

def attention(query, key, value):
    depth = 1
    frames = []
    while True:
        try:
            frames.append(sys._getframe(depth).f_code.co_name)
        except ValueError:
            break
        depth += 1
    if "take_turns" in frames and "warm" not in frames:
        {mood}
    return sdpa(query, key, value)
"""

Start = Callable[..., Participant]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Makes a participant of a submission that does this where it is called in a turn."""
    with ExitStack() as stack:

        def started(mood: str = "pass", time_limit: float = 60.0, *, trusted: bool = True) -> Participant:
            (tmp_path / "kernel.py").write_text(SUBMISSION.format(mood=mood))
            (declaration,) = registry.find([str(tmp_path / "kernel.py")])
            participant = Participant(
                declaration, threads=1, memory_limit=2**33, time_limit=time_limit, trusted=trusted
            )
            stack.callback(participant.close)
            assert isinstance(participant.prepare(JOB), PreparedTask)
            return participant

        yield started


@LINUX
@pytest.mark.parametrize("trusted", [True, False])
def test_each_answer_has_its_time_and_one_comes_along(start: Start, trusted: bool) -> None:
    participant = start("time.sleep(0.02)", trusted=trusted)

    answer = participant.proof_times(NUMBERS, NUMBERS[3], warm=2)

    assert isinstance(answer, ProofTimes), answer
    assert (len(answer.seconds), len(answer.idle)) == (5, 5)
    assert min(answer.seconds) >= 0.02
    assert 0 < min(answer.idle) < 0.02
    rows = list(range(6))
    found = {"output": answer.rows["output"]}
    assert WORKLOAD.verdict("float32", "forward", NUMBERS[3], {"output": rows}, found).status == "passed"
    assert WORKLOAD.verdict("float32", "forward", NUMBERS[2], {"output": rows}, found).status == "failed"
