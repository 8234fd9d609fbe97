"""A benchmark whose timer waits for a device that is not there."""

import pytest
import torch

from attnsuite.benchmark.fixture import timer

waits = []
torch.cuda.synchronize = waits.append


@pytest.mark.benchmark(timer=timer("cuda:1"))
def test_it(benchmark):
    seen = len(waits)
    benchmark(lambda: None)
    assert len(waits) - seen >= 2 * (benchmark.stats.stats.rounds + 1), "calibration waits for the device as well"
    assert set(waits) == {"cuda:1"}
