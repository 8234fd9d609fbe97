"""Says what its process is like, by raising it: the option `of` names what is asked, or an environment variable."""

import gc
import os
import random
from pathlib import Path

import numpy as np
import torch

SAYS = {
    "random": random.random,
    "NumPy's": lambda: np.random.rand(),  # noqa: NPY002  the global source is the one that is asked about
    "PyTorch's": torch.initial_seed,
    "at": Path.cwd,
    "cores": lambda: sorted(os.sched_getaffinity(0)),
    "frozen": gc.get_freeze_count,
}


def attention(query, key, value, *, of):
    raise RuntimeError(f"{SAYS[of]() if of in SAYS else os.environ.get(of)}")
