"""Takes long for long inputs, and as many MiB as an environment variable says; it counts those calls beside itself."""

import os
import time
from pathlib import Path

import torch

from attnsuite import implementation

MEBIBYTES = int(os.environ.get("ATTNSUITE_TEST_TAKER", "1"))


@implementation
def attention(query, key, value):
    long = query.shape[-2] > 1000
    if long:
        with Path(__file__).with_suffix(".txt").open("a") as said:
            print("called", file=said)
        time.sleep(0.15)  # so long that the profiler looks once
    torch.ones(MEBIBYTES if long else 1, 2**18)
    return value * 1.0
