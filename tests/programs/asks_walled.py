"""Asks a walled submission for something that it never answers; prints its folder and the number of its guard."""

import sys

import torch

from attnsuite.cases import Call
from attnsuite.worker import Worker

tensors = {name: torch.ones(2, 2) for name in ("query", "key", "value")}
worker = Worker(sys.argv[1], walled=True)
worker.ready()
print(worker._process.folder, worker.pid, flush=True)
worker.ask([Call(tensors, {"mode": sys.argv[2]})])
