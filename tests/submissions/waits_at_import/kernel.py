"""Changes the process and waits for a file while it is imported, and imports a neighbour again when it is called."""

import os
import time
import warnings
from pathlib import Path

import torch

print("loud")
warnings.warn("beware", stacklevel=1)
torch.set_default_dtype(torch.float64)
while not Path(os.environ["ATTNSUITE_TEST_STARTED"]).exists():
    time.sleep(0.01)

import neighbour  # noqa: E402, F401  after the wait: it has to be found then


def attention(query, key, value, **options):
    import late  # noqa: F401  it has to be found when the function is called

    return torch.ones(2)
