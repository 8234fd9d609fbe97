"""Inputs are read before a call of a proof where a sample finds them in the cache, and what that takes is measured."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from suite.contracts.attention.workloads.workload import Workload
from suite.measure import fetching
from suite.measure.fetching import Fetching, fetch


class Reads(TorchDispatchMode):
    """Notes the bytes of each tensor that is summed, and the threads that do it."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.threads = list[int](), set[int]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.sum.default:
            self.bytes.append(args[0].nbytes)
            self.threads.add(torch.get_num_threads())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("cache", "read"), [(96, [64, 32]), (95, [])])
def test_what_no_cache_holds_is_not_read(monkeypatch: pytest.MonkeyPatch, cache: int, read: list[int]) -> None:
    monkeypatch.setattr(fetching, "largest_cache", lambda: cache)

    with Reads() as seen:
        fetch([torch.ones(16), torch.ones(16, dtype=torch.bfloat16, requires_grad=True)])

    assert seen.bytes == read
    assert seen.threads <= {1}


def test_what_reading_takes_is_measured_of_all_inputs_by_turns() -> None:
    known = Fetching(Workload("test/small", "", 4, 6, 8), "bfloat16", "forward")

    with Reads() as seen:
        taken = known.seconds(3)

    assert 0 < taken < 1
    assert seen.bytes == [4 * 8 * 2, 6 * 8 * 2, 6 * 8 * 2] * 3 * fetching.PASSES
    with Reads() as again:
        assert known.seconds(3) == taken
    assert not again.bytes
    with Reads() as anew:
        known.seconds(3, anew=True)
    assert anew.bytes == seen.bytes
