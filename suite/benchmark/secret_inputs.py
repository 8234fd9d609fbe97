"""Inputs that are made in this process, of numbers that no submission knows before it has to answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, lru_cache

from torch import Tensor

from attnsuite.benchmark.measure.clock import one_thread
from attnsuite.benchmark.measure.messages import Job
from attnsuite.cases import Workload
from attnsuite.cases.tensors import SECRET_NUMBERS
from attnsuite.contracts import contract

KEPT = 2**26
"""Bytes of inputs that exist at once, for the next participant as well: 64 MiB, which every machine can spare."""


class Secrets:
    """The inputs of one workload that differ from number to number."""

    def __init__(self, workload: Workload, dtype: str, direction: str) -> None:
        self._workload = workload
        self._call = replace(workload.call(dtype, direction), weights={})  # which are the same for every number
        self._made: dict[int, Mapping[str, Tensor]] = {}
        self._bytes = 0

    @cached_property
    def _size(self) -> int:
        """Bytes of the inputs of one number; computed once, because it may drop those that exist."""
        return sum(tensor.nbytes for tensor in self.of(SECRET_NUMBERS[0]).values())

    @property
    def room(self) -> int:
        """How many inputs can exist at once: one at least."""
        return max(1, KEPT // max(1, self._size))

    def of(self, number: int) -> Mapping[str, Tensor]:
        """The inputs of this number. They are made anew only where too many others were made since."""
        if number not in self._made:
            with one_thread():
                made = self._workload.tensors_of_round(self._call, number)
            size = sum(tensor.nbytes for tensor in made.values())
            if self._bytes + size > KEPT:
                self._made, self._bytes = {}, 0
            self._made[number] = made
            self._bytes += size
        return self._made[number]


def secrets_of(job: Job) -> Secrets:
    """The inputs of a job, the same for all participants in a table."""
    conventions = json.dumps(job.conventions, sort_keys=True)  # some have choices of their own for each feature
    return _secrets(job.contract, job.workload, job.dtype, job.direction, conventions)


@lru_cache(maxsize=1)
def _secrets(name: str, workload: str, dtype: str, direction: str, conventions: str) -> Secrets:
    return Secrets(contract(name).workload(workload).under(json.loads(conventions)), dtype, direction)
