"""The words that requests and rows use: dtypes, directions, caches, profiles, where results are."""

from __future__ import annotations

from pathlib import Path

from attnsuite.model.escaping import escaped

DTYPES = ("float64", "float32", "float16", "bfloat16")
"""The dtypes in which cases are asked, the widest first, which is their order in tables."""
PASSES = ("forward", "backward", "forward_backward")
"""What is timed of a call: the answer, its gradients, or both together."""
RESULTS = Path("results")
"""The folder of results where a command line names none."""
STEP = "step"
"""A training step: forward, loss, backward, and the optimiser's update of the weights."""
DIRECTIONS = (*PASSES, STEP)
"""All that is timed, in the order of tables."""
CACHES = ("hot", "cold")
"""The last-level cache before a timed call: as the call before left it, or flushed."""
SHAPE = "shape/"
"""How the names of workloads begin that users type as shapes; after it stands the shape."""
PROFILES = ("quick", "standard", "full")
"""The sets of workloads: for CI, for a machine that does nothing else, for GPUs."""

EVERY_CASE = "*"
"""The case, dtype or workload of a row that is about all of them: a missing library, an import that raised."""


class UsageError(Exception):
    """A request that cannot be carried out. Its message is one line: what came, and what exists. Exit status 2."""

    def __init__(self, message: str = "") -> None:
        super().__init__(escaped(message))
