"""Another author's benchmarks of `theirs.kernels`."""

import torch
from theirs import kernels

from attnsuite.pytest_plugin import benchmarks, conformance

torch.set_num_threads(2)
short = {"workloads": "documents/one-sentence"}
test_right = benchmarks(kernels.attention, **short, directions=["forward", "backward", "forward_backward"])
test_two = benchmarks([kernels.attention, kernels.half], **short, dtypes="bfloat16")
test_unscaled = benchmarks(kernels.unscaled, **short)
test_raising = benchmarks(kernels.raising, **short)
test_stale = benchmarks(kernels.stale, workloads="ladder/1k")
test_threaded = benchmarks(kernels.threaded, workloads="ladder/1k")
test_failing = benchmarks(kernels.failing, workloads="ladder/1k")
test_picky = benchmarks(kernels.picky, workloads=["ladder/1k", "flash-small/512-e64-causal"])
test_half = benchmarks(kernels.half, **short)
test_cases = conformance(kernels.attention, cases="plain/small", dtypes="float32")


def test_threads_are_as_before(benchmark):
    assert benchmark(torch.get_num_threads) == 2
