"""Loads something in its first call, and writes beside itself which process did; perhaps it starts a thread then."""

import os
import threading
import time
from pathlib import Path

from attnsuite import implementation

LOADED = []


@implementation
def attention(query, key, value):
    if not LOADED:
        LOADED.append(query.shape)
        with Path(__file__).with_suffix(".txt").open("a") as said:
            print(os.getpid(), file=said)
        if os.environ.get("ATTNSUITE_TEST_LOADER") == "starts threads":
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return value * 1.0
