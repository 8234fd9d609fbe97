"""The service of a benchmark's worker that computes gradients: it imports first what PyTorch's first gradient needs.

This takes 0.4 s, which each process would spend again, and for which forward calls need not wait.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from attnsuite.benchmark.measure.bench import begin, begin_for_memory

__all__ = ["begin", "begin_for_memory"]

with suppress(ImportError):  # another version of PyTorch may not need it
    import_module("torch.fx.experimental.symbolic_shapes")  # and sympy with it
