"""Messages between a benchmark and a process that it measures. Their annotations are their checks.

Each verb of `measure.bench` is answered by one of these structs or by `NoResult`. A measured process runs a
submission's code, so its answers are not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from torch import Tensor

from attnsuite.benchmark.measure import MOST_CALLS
from attnsuite.model import MEASURED_STATUSES, Reason, Status
from attnsuite.model.rows import METERS
from attnsuite.worker.messages import DTYPES

LARGEST = 2**60
"""The largest number that a process may report: more bytes than machines have, and more FLOPs a second."""

Seconds = Annotated[float, Meta(ge=1e-9, le=1e6)]
"""A time: no call takes less than a nanosecond, and none may claim more than eleven days."""
SecondsOrZero = Annotated[float, Meta(ge=0, le=1e6)]
Number = Annotated[float, Meta(ge=0, le=LARGEST)]
Place = tuple[
    str,
    Annotated[str, Meta(pattern=f"^({'|'.join(DTYPES)})$")],
    Annotated[list[Annotated[int, Meta(ge=0, le=LARGEST)]], Meta(min_length=2, max_length=2)],
]
"""The name, the dtype and the two sizes of a tensor among others that lie one after the other."""
Layout = Sequence[tuple[str, str, list[int]]]
"""The name, the dtype and the sizes of each of these tensors."""
Rows = Mapping[str, Sequence[int]]
"""The rows of each tensor, flattened to two axes, that are verified, by the tensor's name."""


class Job(msgspec.Struct, frozen=True):
    """What is timed, or whose memory is measured, by name, so that another process can make it."""

    contract: str
    workload: str
    dtype: str
    direction: str
    cache: str = "hot"
    conventions: dict[str, Any] = {}
    """The conventions that the implementation declares."""


@dataclass(frozen=True)
class NoResult:
    """Why there is no answer, and so no time: the fields are those of a `Measurement`."""

    status: Status
    detail: str
    error_ratio: float | None = None
    known: str = ""
    reason: Reason = Reason.NONE

    def __str__(self) -> str:
        return f"{self.status}: {self.detail}"


class Done(msgspec.Struct, frozen=True):
    """The verb was carried out, and there is nothing to report."""


class PreparedTask(msgspec.Struct, frozen=True):
    """A task that is warmed up. `making`, `first_call` and `warm_up` are as in `Measurement`."""

    making: dict[str, Number | None]
    first_call: Seconds
    warm_up: Seconds
    expected: Seconds
    """Of one call."""
    calls: Annotated[int, Meta(gt=0, le=MOST_CALLS)]
    """How many calls make a sample."""
    head_start: SecondsOrZero = 0.0
    """Of launching a call while the device flushes its cache, which is no part of the call's time."""


class Entered(msgspec.Struct, frozen=True):
    """The inputs of a round are made. `warmed` is the seconds of the untimed call that filled the cache."""

    warmed: SecondsOrZero


class Sampled(msgspec.Struct, frozen=True):
    """One sample: the seconds of one call in it, and of the untimed forwards that were made for its backwards."""

    seconds: Seconds
    made: SecondsOrZero


class OutputRows(msgspec.Struct, frozen=True):
    """Rows of the tensors that a call returned."""

    rows: dict[str, Tensor]


class Exchanged(msgspec.Struct, frozen=True):
    """Inputs were answered turn by turn; `layout` is how the tensors of each answer lie in its bytes."""

    layout: list[Place]


class Weighed(msgspec.Struct, frozen=True):
    """The memory of one call in bytes by meter, as in `Measurement`, and the kernels that it ran.

    `spent` says that the process made the call itself, so that what the call left behind hides what another takes.
    """

    memory: dict[str, Number | None]
    kernel: str
    spent: bool = False

    def __post_init__(self) -> None:
        if set(self.memory) != METERS:
            raise ValueError(f"meters {sorted(self.memory)!r:.80}")


class Energy(msgspec.Struct, frozen=True):
    """What the device reported during calls in a row; its joules are those of one call."""

    telemetry: dict[str, Any]


class Ceilings(msgspec.Struct, frozen=True):
    """What the machine reaches: `flops` and `bytes` per second."""

    ceilings: dict[str, Number]


class _Failure(msgspec.Struct):
    """A failure as a process reports it; nothing else is believed of one."""

    status: Status
    detail: str

    def __post_init__(self) -> None:
        if self.status not in MEASURED_STATUSES or self.status == Status.MEASURED:
            raise ValueError(f"status {str(self.status)!r}")


Answer = Done | PreparedTask | Entered | Sampled | OutputRows | Exchanged | Weighed | Energy | Ceilings
AnyAnswer = TypeVar("AnyAnswer", Done, PreparedTask, Entered, Sampled, OutputRows, Exchanged, Weighed, Energy, Ceilings)


def written(answer: Answer | NoResult) -> dict[str, Any]:
    """An answer as plain data and tensors."""
    if isinstance(answer, NoResult):
        return {"status": str(answer.status), "detail": answer.detail}
    return msgspec.structs.asdict(answer)


def read(kind: type[AnyAnswer], data: object) -> AnyAnswer | NoResult:
    """The answer or the failure in the data. Data that are neither are a failure, too."""
    if not isinstance(data, dict):
        return NoResult(Status.CRASHED, f"answered garbage: {data!r:.80}")
    try:
        if "status" not in data:
            return msgspec.convert(data, kind)
        failure = msgspec.convert(data, _Failure)
        return NoResult(failure.status, failure.detail)
    except (msgspec.ValidationError, RecursionError) as error:
        return garbage(f"{error}, got {data!r:.80}")


def garbage(what: str) -> NoResult:
    """The failure of a process whose answer no honest process gives."""
    return NoResult(Status.REFUSED, f"answered garbage: {what}")
