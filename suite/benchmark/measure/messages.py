"""Messages between a benchmark and a process that it measures, validated by their annotations.

Each verb of `measure.bench` returns one of these structs or `NoResult`. A measured process runs a submission's code, so
its replies are not trusted.
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
"""Seconds: no call takes less than a nanosecond, and none may claim more than eleven days."""
SecondsOrZero = Annotated[float, Meta(ge=0, le=1e6)]
Number = Annotated[float, Meta(ge=0, le=LARGEST)]
Place = tuple[
    str,
    Annotated[str, Meta(pattern=f"^({'|'.join(DTYPES)})$")],
    Annotated[list[Annotated[int, Meta(ge=0, le=LARGEST)]], Meta(min_length=2, max_length=2)],
]
"""The name, the dtype and the two sizes of a tensor, one of several in a row."""
Layout = Sequence[tuple[str, str, list[int]]]
"""The name, the dtype and the sizes of tensors that lie one after the other."""
Rows = Mapping[str, Sequence[int]]
"""The rows to verify, by name of a tensor that is flattened to two axes."""


class Job(msgspec.Struct, frozen=True):
    """The task that another process prepares, by name, to time it or to measure its memory."""

    contract: str
    workload: str
    dtype: str
    direction: str
    cache: str = "hot"
    conventions: dict[str, Any] = {}
    """The conventions that the implementation declares."""


@dataclass(frozen=True)
class NoResult:
    """Why there is no reply, and so no time: the fields are those of a `Measurement`."""

    status: Status
    detail: str
    error_ratio: float | None = None
    known: str = ""
    reason: Reason = Reason.NONE

    def __str__(self) -> str:
        return f"{self.status}: {self.detail}"


class BenchReply(msgspec.Struct, frozen=True):
    """The reply of a measured process to a verb."""


class Acknowledgement(BenchReply, frozen=True):
    """The verb was carried out."""


class PreparedTask(BenchReply, frozen=True):
    """A task after warm-up. `making`, `first_call` and `warm_up` are as in `Measurement`."""

    making: dict[str, Number | None]
    first_call: Seconds
    warm_up: Seconds
    expected: Seconds
    """Of one call."""
    calls: Annotated[int, Meta(gt=0, le=MOST_CALLS)]
    """How many calls make a sample."""
    head_start: SecondsOrZero = 0.0
    """Seconds of launching a call while the device flushes its cache, which the call's time excludes."""


class RoundInputs(BenchReply, frozen=True):
    """The inputs of a round exist. `warmed` is the seconds of the untimed call that filled the cache."""

    warmed: SecondsOrZero


class SampleTime(BenchReply, frozen=True):
    """One sample: the seconds of one call in it, and of the untimed forwards before its backwards."""

    seconds: Seconds
    made: SecondsOrZero


class OutputRows(BenchReply, frozen=True):
    """Rows of the tensors that a call returned."""

    rows: dict[str, Tensor]


class ReplyLayout(BenchReply, frozen=True):
    """The layout of the tensors in the bytes of each reply of an exchange."""

    layout: list[Place]


class CallMemory(BenchReply, frozen=True):
    """The memory of one call in bytes by meter, as in `Measurement`, and the kernels that it ran."""

    memory: dict[str, Number | None]
    kernel: str

    def __post_init__(self) -> None:
        if set(self.memory) != METERS:
            raise ValueError(f"meters {sorted(self.memory)!r:.80}")


class Energy(BenchReply, frozen=True):
    """The device's telemetry during calls in a row; its joules are those of one call."""

    telemetry: dict[str, Any]


class Ceilings(BenchReply, frozen=True):
    """The rates that the machine reaches: `flops` and `bytes` per second."""

    ceilings: dict[str, Number]


class _Failure(msgspec.Struct):
    """A failure as a process reports it; its other fields are ignored."""

    status: Status
    detail: str

    def __post_init__(self) -> None:
        if self.status not in MEASURED_STATUSES or self.status == Status.MEASURED:
            raise ValueError(f"status {str(self.status)!r}")


AnyReply = TypeVar("AnyReply", bound=BenchReply)


def encode(reply: BenchReply | NoResult) -> dict[str, Any]:
    """A reply as plain data and tensors."""
    if isinstance(reply, NoResult):
        return {"status": str(reply.status), "detail": reply.detail}
    return msgspec.structs.asdict(reply)


def decode(kind: type[AnyReply], data: object) -> AnyReply | NoResult:
    """The reply or the failure in the data. Data that are neither are a failure, too."""
    if not isinstance(data, dict):
        return NoResult(Status.CRASHED, f"invalid reply: {data!r:.80}")
    try:
        if "status" not in data:
            return msgspec.convert(data, kind)
        failure = msgspec.convert(data, _Failure)
        return NoResult(failure.status, failure.detail)
    except (msgspec.ValidationError, RecursionError) as error:
        return invalid_reply(f"{error}, got {data!r:.80}")


def invalid_reply(what: str) -> NoResult:
    """The failure of a process whose reply the suite's own code never sends."""
    return NoResult(Status.REFUSED, f"invalid reply: {what}")
