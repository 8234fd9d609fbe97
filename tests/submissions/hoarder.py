"""Keeps what it took for the first large call, and dies of some workloads. An environment variable says what else."""

import os
import signal
import threading
import time

import torch

from attnsuite import implementation

HELD = {}
ALSO = os.environ.get("ATTNSUITE_TEST_HOARDER")
if ALSO == "starts threads":
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    torch.ones(64, 64) @ torch.ones(64, 64)


@implementation
def attention(query, key, value, *, attn_mask=None):
    if query.shape[-2] == 197:
        os.kill(os.getpid(), signal.SIGSEGV)
    if query.shape[-2] == 37:
        os._exit(3)
    if query.shape[-2] > 1000 and not HELD:
        HELD["room"] = torch.ones(2**22, dtype=torch.uint8)  # 4 MiB, kept for the next call
    return value * 1.0
