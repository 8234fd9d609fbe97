"""Names in requests and rows: dtypes, directions, caches, profiles, the folder of results."""

from __future__ import annotations

from pathlib import Path

from attnsuite.model.escaping import escaped

DTYPES = ("float64", "float32", "float16", "bfloat16")
"""The dtypes of tests, the widest first, in the order of tables."""
PASSES = ("forward", "backward", "forward_backward")
"""The timed parts of a call: its output, its gradients, or both together."""
RESULTS = Path("results")
"""The default folder of results."""
STEP = "step"
"""A training step: forward, loss, backward, and the optimiser's update of the weights."""
DIRECTIONS = (*PASSES, STEP)
"""Everything that is timed, in the order of tables."""
CACHES = ("hot", "cold")
"""The last-level cache before a timed call: as the previous call left it, or flushed."""
SHAPE = "shape/"
"""The prefix of the names of workloads that users give as shapes."""
PROFILES = ("quick", "standard", "gpu", "full")
"""The sets of workloads: for CI, for an idle machine, for ten minutes of a GPU, for hours of one."""

EVERY_CASE = "*"
"""The case, dtype or workload of a row about all of them, such as a missing library or an import error."""


class UsageError(Exception):
    """A request that cannot be carried out. Its message is one line: what was given, what is expected."""

    def __init__(self, message: str = "") -> None:
        super().__init__(escaped(message))
