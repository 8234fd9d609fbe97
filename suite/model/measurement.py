"""What one implementation took for one workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, field
from msgspec.structs import force_setattr

from attnsuite.model.escaping import escaped
from attnsuite.model.status import BENCHMARK_FAILURES, Reason, Status
from attnsuite.model.typed import Amount, Count, Name, Row, Sample, Text

METERS = frozenset({"output", "resident", "retained", "constant", "calibration", "allocator", "driver"})
"""The meters of `Measurement.memory`, by name."""


Direction: TypeAlias = Annotated[str, Meta(pattern=r"^(forward|backward|forward_backward|step|\*)$")]
Cache: TypeAlias = Annotated[str, Meta(pattern=r"^(hot|cold|\*)$")]


class Measurement(Row, frozen=True):
    """What one implementation took for one workload: raw samples, never a summary of them.

    Where `status` is not `measured` there is no time, and `detail` says why.
    """

    implementation: Name
    contract: Name
    workload: Name
    dtype: Name
    device: Name
    threads: Count
    """Threads (and, where the system allows, cores) that a CPU implementation may use; 0 on other devices."""
    direction: Direction
    """`forward`, `backward` alone (its forward untimed, never by subtraction), or both in one: `forward_backward`."""
    cache: Cache
    """`cold`: flushed before each call; `hot`: as the call before left it."""
    status: Status
    detail: Text = ""
    seconds: tuple[Sample, ...] = ()
    """One sample a round, in the order of rounds, which it shares with every other row of its table in this run."""
    processes: Annotated[str, Meta(pattern="^[0-9]*$")] = ""
    """Which process took each sample, a digit for each; empty where one took all."""
    calls: Count = 0
    """How many calls each sample is the mean of."""
    stopped: Text = ""
    """Why rounds ended: `narrow` (the intervals were), `budget` (the time was spent)."""
    first_call: Amount | None = None
    """Seconds of the very first call: compiling, building a session, loading code."""
    warm_up: Amount | None = None
    """Seconds spent in calls before the first sample, without the first call."""
    making: Mapping[str, Amount | None] = field(default_factory=dict)
    """What it took to make a model: `factory`, seconds in all; and in the model's own word, where it says so, the
    seconds of `export`, now or once for all, and of the start of a `session`, and the bytes of its `file`."""
    memory: Mapping[str, Amount | None] = field(default_factory=dict)
    """Bytes by meter, all net of inputs; of a backward with the forward before it.

    - `output`, what the call returns
    - `resident`, the peak of the process over one call, without what stays after the first
    - `retained`, what the process has kept since before the first call, without pages of files
    - `constant` and `calibration`, what the resident meter says of a call that allocates nothing, and of each byte of
      known allocations
    - `allocator`, the peak of PyTorch's CUDA allocator; `driver`, by how much NVML's used memory grew over a call
    """
    work: Mapping[str, Amount] = field(default_factory=dict)
    """`attended` and `convention`: FLOPs by the pairs attended, and as FlashAttention counts; `bytes`, moved once."""
    ceilings: Mapping[str, Amount] = field(default_factory=dict)
    """What this machine reached in the same run: `flops` per second in a matrix product, `bytes` per second copied. If
    that was in an earlier run, `age` is how many seconds before."""
    error_ratio: Amount | None = None
    """The largest error, in bounds, of the sampled rows of one timed round chosen at random."""
    own_clock: Sample | None = None
    """What a call took by the clock of the process that asks, as a multiple of the median of `seconds`: in its samples
    and, where calls take 1 ms or more, on new numbers. None where that clock does not bound it; of such calls `detail`
    then says why."""
    relative_error: Mapping[str, Amount] = field(default_factory=dict)
    """Of models: the errors of those rows as shares of the truth's norm: `largest`, and `rms`, the root of their mean
    square. Nothing is judged by it."""
    kernel: Text = ""
    """The operators or kernels that really ran, the longest first; empty where no profiler sees them."""
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    """On GPUs: clocks in MHz, temperature in °C, power in W, throttle reasons, and J per call, of calls in a row
    between which nothing is flushed. A value that is null has its reason in `<name>_absent`."""
    known: Text = ""
    """The finding for which it is refused, or empty."""
    reason: Reason = Reason.NONE
    """Why it was declined, where the status alone does not say it."""

    def __post_init__(self) -> None:
        if not self.detail.isprintable():  # it may be in a submission's words
            force_setattr(self, "detail", escaped(self.detail))

    @property
    def key(self) -> tuple[str, ...]:
        """What a resumed run looks up to see whether this was measured already."""
        return (self.implementation, *self.table)

    @property
    def peak(self) -> float | None:
        """Peak memory of one call net of inputs, its output included.

        By the allocator on CUDA; else resident and retained together, because a library that keeps its workspace from
        call to call takes it all the same.
        """
        if self.memory.get("allocator") is not None:
            return self.memory["allocator"]
        resident, retained = self.memory.get("resident"), self.memory.get("retained")
        return None if resident is None else resident + (retained or 0.0)

    @property
    def table(self) -> tuple[str, ...]:
        """The rows that were measured round by round together, and may be compared, share this (and their run)."""
        return (self.workload, self.dtype, self.device, str(self.threads), self.direction, self.cache)

    @property
    def group(self) -> str:
        """The table in words, as pytest-benchmark shows it: `ladder/1k float32 cpu 1 thread forward hot`."""
        return table_in_words(self.workload, self.dtype, self.device, self.threads, self.direction, self.cache)

    @property
    def fails(self) -> bool:
        """Whether this row alone makes a benchmark fail. Memory is a limit of the machine, and no failure."""
        return self.status in BENCHMARK_FAILURES and not self.known


def table_in_words(workload: str, dtype: str, device: str, threads: int, direction: str, cache: str) -> str:
    """A timed table as pytest-benchmark shows it: `ladder/1k float32 cpu 1 thread forward hot`."""
    said = {0: "", 1: "1 thread"}.get(threads, f"{threads} threads")
    return " ".join(filter(None, (workload, dtype, device, said, direction, cache)))
