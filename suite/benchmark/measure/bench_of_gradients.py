"""The bench where gradients are asked for: what PyTorch imports with the first of them is imported before.

It takes 0.4 s, which every process that is timed or weighed would take anew, and which forward calls need not wait for.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from attnsuite.benchmark.measure.bench import begin, begin_to_weigh

__all__ = ["begin", "begin_to_weigh"]

with suppress(ImportError):  # another version of PyTorch may need it no more
    import_module("torch.fx.experimental.symbolic_shapes")  # and sympy with it
