"""Says what its process is like, by raising it: the option `of` names what is asked, or an environment variable."""

import gc
import os
import random
from pathlib import Path

import numpy as np
import torch

NEW_OBJECTS = 10_000
"""Less than a quarter of those that PyTorch's import makes: no reason for Python to look through all of these."""


def looked_through() -> int:
    """How often all objects are looked through for garbage while so many are made that stay, at the least occasion."""
    gc.set_threshold(100, 1, 1)
    before = gc.get_stats()[2]["collections"]
    kept = [[] for _ in range(NEW_OBJECTS)]
    return gc.get_stats()[2]["collections"] - before if kept else -1


SAYS = {
    "random": random.random,
    "NumPy's": lambda: np.random.rand(),  # noqa: NPY002  the global source is the one that is asked about
    "PyTorch's": torch.initial_seed,
    "at": Path.cwd,
    "cores": lambda: sorted(os.sched_getaffinity(0)),
    "frozen": gc.get_freeze_count,
    "looked through": looked_through,
}


def attention(query, key, value, *, of=None):
    raise RuntimeError(f"{SAYS[of]() if of in SAYS else os.environ.get(of)}")
