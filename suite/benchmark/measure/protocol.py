"""What crosses between a benchmark and a process that it measures: jobs, answers, and why there is no answer.

Every verb of `benchmark.measure.bench` answers one of these records or `Failed`. Between processes they are JSON and
tensors; what comes in is checked here, field by field, for it comes from a process that runs somebody's code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from torch import Tensor

from attnsuite.benchmark.measure import MOST_CALLS
from attnsuite.model import MEASURED_STATUSES, Reason, Status
from attnsuite.model.measurement import METERS
from attnsuite.worker.messages import DTYPES

SHORTEST_TIME = 1e-9
"""Seconds: a process may claim no shorter time. No call takes less."""
LONGEST_TIME = 1e6
"""Seconds: a process may claim no longer time. These are eleven days."""
LARGEST_NUMBER = 2.0**60
"""A process may say no larger number of anything else: more bytes than machines have, more FLOPs a second, too."""

Checks = Mapping[Any, Callable[[Any], bool]]
"""Whether a value is what an annotation says, by the annotation."""
Seconds = float
SecondsOrNone = float
"""Seconds, or 0 where nothing was done."""
Count = int
Numbers = dict[str, float | None]
Rates = dict[str, float]
MemoryByMeter = dict[str, float | None]
"""Bytes, as in `Measurement.memory`."""
Rows = Mapping[str, Sequence[int]]
"""Which rows of each tensor, flattened to two axes, are looked at, by the tensor's name."""
Tensors = dict[str, Tensor]
Layout = list[list[Any]]
"""Of tensors that lie behind each other: the name, the dtype and the sizes of each."""
Telemetry = dict[str, Any]
"""What a GPU says of itself, as in `Measurement.telemetry`."""


@dataclass(frozen=True)
class Job:
    """What is to be timed or weighed, by name, so that another process can make it."""

    contract: str
    workload: str
    dtype: str
    direction: str
    cache: str = "hot"
    conventions: Mapping[str, Any] = field(default_factory=dict)
    """What whoever is asked declares."""


@dataclass(frozen=True)
class Failed:
    """Why there is no answer, and so no time: the fields are those of a `Measurement`."""

    status: Status
    detail: str
    error_ratio: float | None = None
    known: str = ""
    reason: Reason = Reason.NONE

    def __str__(self) -> str:
        return f"{self.status}: {self.detail}"


@dataclass(frozen=True)
class Done:
    """What was asked for was done, and there is nothing to say of it."""


@dataclass(frozen=True)
class Prepared:
    """A task that is warmed up. `first_call`, `warm_up` and `making` are as in `Measurement`."""

    making: Numbers
    first_call: Seconds
    warm_up: Seconds
    expected: Seconds
    """Of one call."""
    calls: Count
    """How many calls make a sample."""
    head_start: SecondsOrNone = 0.0
    """Of launching a call while the device flushes its cache, which is no part of the call's time."""


@dataclass(frozen=True)
class Entered:
    """The inputs of a round are made."""

    warmed: SecondsOrNone
    """Of the untimed calls that filled the cache."""


@dataclass(frozen=True)
class Sampled:
    """One sample."""

    seconds: Seconds
    """Of one call in it."""
    made: SecondsOrNone
    """Of what was made for its calls, untimed: the forward before each backward."""


@dataclass(frozen=True)
class Found:
    """Rows of the tensors that a call returned."""

    rows: Tensors


@dataclass(frozen=True)
class Exchanged:
    """Inputs were answered, turn by turn."""

    layout: Layout
    """How each answer lies in its bytes: the name, the dtype and the two sizes of each tensor in it."""


@dataclass(frozen=True)
class Rehearsed:
    """A small call was made. `copyable` says whether a forked copy of the process still lacks nothing."""

    copyable: bool


@dataclass(frozen=True)
class Weighed:
    """What one call took of memory, and the kernels that it ran.

    `spent` says that the process made the call itself, so that what the call left behind would hide what another takes.
    """

    memory: MemoryByMeter
    kernel: str
    spent: bool = False


@dataclass(frozen=True)
class Energy:
    """What the device said of itself during calls in a row; its joules are those of one call."""

    telemetry: Telemetry


@dataclass(frozen=True)
class Ceilings:
    """What the machine reaches: `flops` and `bytes` per second."""

    ceilings: Rates


Answer = Done | Prepared | Entered | Sampled | Found | Exchanged | Rehearsed | Weighed | Energy | Ceilings
AnyAnswer = TypeVar(
    "AnyAnswer", Done, Prepared, Entered, Sampled, Found, Exchanged, Rehearsed, Weighed, Energy, Ceilings
)


def written(answer: Answer | Failed) -> dict[str, Any]:
    """An answer as data. A failure is told by its status."""
    return {"status": str(answer.status), "detail": answer.detail} if isinstance(answer, Failed) else as_data(answer)


def read(kind: type[AnyAnswer], data: object) -> AnyAnswer | Failed:
    """The answer that is in the data, or the failure; where it is neither, that is the failure."""
    if not isinstance(data, dict):
        return Failed(Status.DIED, f"answered garbage: {data!r:.80}")
    if "status" in data:
        return _failure(data)
    if name := misfit(kind, data, _CHECKS):
        return garbage(f"{name} {data.get(name)!r:.80}")
    return kind(**{field.name: data[field.name] for field in fields(kind)})


def garbage(what: str) -> Failed:
    """The failure of a process that answered something which no honest one answers."""
    return Failed(Status.REFUSED, f"answered garbage: {what}")


def _failure(data: Mapping[str, Any]) -> Failed:
    status, detail = data["status"], data.get("detail")
    if status not in MEASURED_STATUSES or status == Status.MEASURED or not isinstance(detail, str):
        return garbage(f"status {status!r:.80}")
    return Failed(Status(status), detail)


def as_data(record: Any) -> dict[str, Any]:
    """A dataclass's fields by name, one level deep."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def misfit(kind: type[Any], data: Mapping[str, Any], checks: Checks) -> str | None:
    """The first field of a record of this kind whose value is not there or not as annotated; None where all are."""
    unfit = (of.name for of in fields(kind) if of.name not in data or not checks[of.type](data[of.name]))
    return next(unfit, None)


def are_tensors(value: Any) -> bool:
    """Whether this is a dictionary of nothing but tensors."""
    return isinstance(value, dict) and all(isinstance(each, Tensor) for each in value.values())


def _is_time(value: object) -> bool:
    return isinstance(value, float) and SHORTEST_TIME <= value <= LONGEST_TIME


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= LARGEST_NUMBER  # type: ignore[operator]


def _are_numbers(value: object) -> bool:
    return isinstance(value, dict) and all(each is None or _is_number(each) for each in value.values())


def _is_layout(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_place, value))


def _is_place(value: object) -> bool:
    """Whether it is the name, the dtype and the two sizes of a tensor."""
    if not (isinstance(value, list) and len(value) == 3):
        return False
    name, dtype, sizes = value
    known = isinstance(name, str) and isinstance(dtype, str) and dtype in DTYPES
    return known and isinstance(sizes, list) and len(sizes) == 2 and all(map(_is_size, sizes))


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_NUMBER


_CHECKS: Checks = {
    "Seconds": _is_time,
    "SecondsOrNone": lambda value: _is_number(value) and (value == 0 or _is_time(value)),
    "Count": lambda value: type(value) is int and 0 < value <= MOST_CALLS,
    "Numbers": _are_numbers,
    "Rates": lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
    "MemoryByMeter": lambda value: _are_numbers(value) and set(value) == METERS,
    "Tensors": are_tensors,
    "Layout": _is_layout,
    "Telemetry": lambda value: isinstance(value, dict),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
}
"""What the fields of answers are, by their annotations."""
