"""Inputs that are made in this process, and that no submission sees before its call on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from torch import Tensor

from attnsuite.benchmark.measure.clock import one_thread
from attnsuite.benchmark.measure.messages import Job
from attnsuite.cases import Workload
from attnsuite.cases.tensors import SECRET_NUMBERS
from attnsuite.contracts import contract

KEPT = 2**26
"""Bytes of inputs in memory at once, shared by participants: 64 MiB, which every machine can spare."""


class SecretInputs:
    """The inputs of one workload that differ from number to number: `inputs(number)`, stored for the last numbers."""

    def __init__(self, workload: Workload, dtype: str, direction: str) -> None:
        self._workload = workload
        self._call = replace(workload.call(dtype, direction), weights={})  # weights are the same for every number
        size = sum(tensor.nbytes for tensor in self._made(SECRET_NUMBERS[0]).values())
        self.capacity = max(1, KEPT // max(1, size))
        """How many inputs are stored at once: one at least."""
        self.inputs = lru_cache(self.capacity)(self._made)

    def _made(self, number: int) -> Mapping[str, Tensor]:
        with one_thread():
            return self._workload.tensors_of_round(self._call, number)


def secret_inputs_of(job: Job) -> SecretInputs:
    """The inputs of a job, the same for all participants in a table."""
    conventions = json.dumps(job.conventions, sort_keys=True)  # a convention may differ by feature
    return _secrets(job.contract, job.workload, job.dtype, job.direction, conventions)


@lru_cache(maxsize=1)
def _secrets(name: str, workload: str, dtype: str, direction: str, conventions: str) -> SecretInputs:
    return SecretInputs(contract(name).workload(workload).under(json.loads(conventions)), dtype, direction)
