"""The rows of files of results: typed structs whose annotations are their checks, and the words in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta, Struct, field, to_builtins
from msgspec.structs import force_setattr

from attnsuite.model.escaping import escaped

LONGEST_TEXT = 2000
"""Characters that a row stores of a text: a submission may raise an exception of megabytes."""
INFINITE = 1e308
"""The number that stands for infinity in a file, because JSON has no infinity."""

Text: TypeAlias = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
"""A number that is not negative: seconds, bytes, FLOPs, an error in units of its bound."""
Sample: TypeAlias = Annotated[float, Meta(gt=0)]
"""Seconds of one timed call."""


class Row(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A row of a file of results: a field at its default is not written, and an unknown field is an error."""

    DIGITS: ClassVar[int] = 6
    """Significant digits of its numbers in a file."""


def lean(row: Row, longest: int = LONGEST_TEXT) -> dict[str, Any]:
    """The row as a JSON object: without fields at their default, numbers rounded, texts cut to `longest` characters."""
    return {name: _short(value, row.DIGITS, longest) for name, value in to_builtins(row).items()}


def _short(value: Any, digits: int, longest: int) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return float(f"{value:.{digits}g}") if math.isfinite(value) else math.copysign(INFINITE, value)
    if isinstance(value, str):
        end = f" … ({len(value)} characters)"
        text = value if len(value) <= longest else value[: longest - len(end)] + end
        return text.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_short(name, digits, longest): _short(each, digits, longest) for name, each in value.items()}
    return [_short(each, digits, longest) for each in value] if isinstance(value, list) else value


class Status(StrEnum):
    """What became of a case (in an outcome) or of a workload (in a measurement). The values are those in JSON rows."""

    PASSED = "passed"
    MEASURED = "measured"
    FAILED = "failed"
    ERROR = "error"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    REFUSED = "refused"
    """No time is shown, because the implementation fails its contract on what the workload uses."""
    UNSUPPORTED = "unsupported"
    MISSING = "missing"


STATUSES = (
    Status.PASSED,
    Status.FAILED,
    Status.ERROR,
    Status.CRASHED,
    Status.TIMEOUT,
    Status.UNSUPPORTED,
    Status.MISSING,
)
"""The statuses of an outcome, in the order of tables."""

MEASURED_STATUSES = (
    Status.MEASURED,
    Status.OUT_OF_MEMORY,
    Status.ERROR,
    Status.CRASHED,
    Status.TIMEOUT,
    Status.REFUSED,
    Status.UNSUPPORTED,
    Status.MISSING,
)
"""The statuses of a measurement, in the order of tables."""

FAILURES = (Status.FAILED, Status.ERROR, Status.CRASHED, Status.TIMEOUT)
"""Outcomes that make a check fail, unless a finding records them."""

WITHOUT_RESULT = (Status.CRASHED, Status.TIMEOUT)
"""The failures of which there is no answer: to ask again may take as long again."""
BENCHMARK_FAILURES = (Status.ERROR, Status.CRASHED, Status.TIMEOUT, Status.REFUSED)
"""Measurements that make a benchmark fail. Out of memory is a limit of the machine, and no failure."""


class Reason(StrEnum):
    """Why a case or a workload has no answer, if the status alone does not say it."""

    NONE = ""
    UNTAKEN = "untaken"
    """The signature has no parameter for something that the case needs."""
    LACKING = "lacking"
    """The implementation declares that it lacks something that the case needs."""
    AT_RUN_TIME = "at_run_time"
    """The implementation raised NotImplementedError when it was asked."""
    UNDEFINED = "undefined"
    """Under the declared convention the case has no defined answer."""
    CORE = "core"
    """The implementation does not support the core of the contract, which is required; the status is `failed`."""
    SKIPPED = "skipped"
    """The cases before it timed out, so this one was skipped."""
    TOO_SLOW = "too_slow"
    """A call takes longer than the profile has time for."""
    LENIENT = "lenient"
    """A submission accepted bad input in a check that is not strict: the status is `failed`, and the check passes."""


BAD_INPUT = "bad_input"
"""The family of the cases that expect an error."""
INPUT_VALIDATION = "input validation: "
"""How the detail begins where bad input was accepted, and nothing worse happened."""


class Outcome(Row, frozen=True):
    """What became of one implementation on one case in one dtype.

    `error_ratio` is the largest error in units of the oracle's bound; `seconds` is how long the answer took. `known`
    names the finding that records this failure, or is empty. `reason` says why there is no answer.
    """

    DIGITS = 3
    implementation: Name
    contract: Name
    case: Name
    dtype: Name
    device: Name
    status: Status
    detail: Text = ""
    error_ratio: Amount | None = None
    seconds: Amount | None = None
    known: Text = ""
    diagnosis: tuple[Name, ...] = ()
    """The mutants that give the same wrong answer, the likeliest first; `detail` has them in words."""
    reason: Reason = Reason.NONE

    def __post_init__(self) -> None:
        if not self.detail.isprintable():  # it may be in a submission's words
            force_setattr(self, "detail", escaped(self.detail))
        if self.error_ratio is not None and self.error_ratio >= INFINITE:
            force_setattr(self, "error_ratio", math.inf)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What a resumed run looks up, so that nothing is asked twice."""
        return (self.implementation, self.case, self.dtype, self.device)

    @property
    def says(self) -> str:
        """The status and the detail in one line; the status once, also if the detail begins with it."""
        if self.detail.startswith(f"{self.status}:"):
            return self.detail
        return f"{self.status}: {self.detail}" if self.detail else str(self.status)

    @property
    def fails(self) -> bool:
        """Whether this outcome alone makes a check fail: a failure that no finding records, and no leniency."""
        return self.status in FAILURES and not self.known and not self.lenient

    @property
    def lenient(self) -> bool:
        """Whether bad input was accepted in a check that does not fail for it."""
        return self.reason == Reason.LENIENT

    @property
    def validates_input(self) -> bool:
        """Whether the case expects an error."""
        return self.case.partition("/")[0] == BAD_INPUT


METERS = frozenset({"output", "resident", "retained", "constant", "calibration", "allocator", "driver"})
"""The meters of `Measurement.memory`, by name."""
METER_ERROR = 2**20
"""Bytes by which the resident meter may be off: the system counts pages thread by thread and adds them up now and then.
Peaks of the same call on the same machine differ by up to 0.3 MiB. Smaller differences are not told apart."""


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
    """Why it is unsupported, where the status alone does not say it."""

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


Losses: TypeAlias = Annotated[tuple[float, ...], Meta(min_length=1)]
"""A mean loss for each epoch."""


WRONG_GRADIENTS, RIGHT_GRADIENT = "wrong-gradients", "right"
"""The task in which attentions with wrong gradients are trained, and what stands there for the right one."""


class TrainingRow(Row, frozen=True):
    """One training that ended, from one seed."""

    implementation: Name
    """The attention that was plugged in; the model itself where none can be."""
    task: Name
    seed: Count
    device: Name
    curve: Losses
    scores: Mapping[str, float]
    """By name, of what was not trained on."""
    printed: Mapping[str, float] = field(default_factory=dict)
    """The documents' scores, by the same names."""
    baselines: Mapping[str, float] = field(default_factory=dict)
    """Scores of simpler methods on the same data, by method."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The task's config: sizes, rates, epochs."""
    seconds: Amount | None = None
    """Seconds that the processor spent on its epochs; those before an interruption count too."""
    without: tuple[Text, ...] = ()
    """What the task uses and the attention lacks, so that it was trained without: dropout of weights."""

    @property
    def key(self) -> tuple[str, ...]:
        """What a resumed run looks up to see whether this was trained already."""
        return (self.implementation, self.task, str(self.seed), self.device)


Samples: TypeAlias = tuple[float, ...]
"""Numbers as they were measured: one a round, a draw or a seed."""


class ClaimStatus(StrEnum):
    """What a measurement says of a claim. The values are those in JSON rows."""

    HOLDS = "holds"
    """The interval lies within the range in which the claim holds."""
    DOES_NOT = "does not hold"
    """The interval lies outside it."""
    UNCLEAR = "unclear"
    """The interval lies across its border, or there are too few samples for one."""
    ERROR = "error"
    """The measurement raised an exception."""
    MISSING = "missing"
    """A library that the measurement needs is not installed."""


class Evidence(StrEnum):
    """How a claim is measured, and so what its number depends on."""

    EXACT = "exact"
    """Computed or counted: the same on every machine, but for rounding."""
    DRAWN = "drawn"
    """A sample of random numbers of fixed seeds."""
    TRAINED = "trained"
    """A model that was trained, once for each seed."""
    TIMED = "timed"
    """By the suite's stopwatch, on one thread."""


class ClaimResult(Row, frozen=True):
    """What became of a claim."""

    implementation: Name
    """`claims/` and the topic: rows in results/ are counted by it."""
    claim: Name
    device: Name
    document: Name
    section: Text
    statement: Text
    """What the document says, in words."""
    quantity: Text
    """What was measured, in words."""
    expected: Text
    """The range in which the claim holds, in words."""
    evidence: Evidence
    holds: ClaimStatus
    value: float | None = None
    """The median of the samples, or the one number."""
    low: float | None = None
    high: float | None = None
    """The interval of the median, at the level of `attnsuite.model.statistics`; the number itself where it is exact."""
    detail: Text = ""
    """What else there is to know: numbers on the way, the reason why there is none."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers on the way, by name."""
    samples: Samples = ()
    seconds: Amount | None = None
    """How long the measurement took."""

    @property
    def key(self) -> tuple[str, ...]:
        """What a resumed run looks up, so that nothing is measured twice."""
        return (self.implementation, self.claim, self.device)

    @property
    def fails(self) -> bool:
        """Whether it could not be measured, though all that it needs is there. One that does not hold is no failure."""
        return self.holds == ClaimStatus.ERROR


class Repetition(Row, frozen=True):
    """The baseline (`place` 0), or an implementation identical to it, timed beside it in one run."""

    run: Name
    """When the run started; it tells runs apart."""
    workload: Name
    threads: Count
    place: Count
    seconds: Sample
    """The median time of a call."""
    ratio: Sample
    """The median over rounds of its time as a multiple of the baseline's; 1 for the baseline."""

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from other rows of its kind in a run."""
        return self.run, self.workload, str(self.threads), str(self.place)


ATTENTION = "attention"
"""What the operators of PyTorch's attention have in their names."""
NAMED = 6
"""Operators that are named in a line; of more, the others are counted."""


class Operators(Row, frozen=True):
    """In how many questions each operator ran, of so many that were looked at."""

    looked_at: Count
    ran: Mapping[str, Count] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """In a short line: PyTorch's own attention before all others."""
        return self._in_words(NAMED)

    @property
    def whole(self) -> str:
        """The same with every operator."""
        return self._in_words(len(self.ran))

    def _in_words(self, most: int) -> str:
        if not self.ran:
            recorded = f"{self.looked_at} recorded tests" if self.looked_at > 1 else "one recorded test"
            return f"operators: none of PyTorch's ran in the {recorded}; other code computed"
        attention = [name for name in self.ran if ATTENTION in name]
        names = sorted(self.ran, key=lambda name: (name not in attention, -self.ran[name], name))
        called = "PyTorch's own attention is called; " if any(name.startswith("aten::") for name in attention) else ""
        more = f", and {len(names) - most} more" if len(names) > most else ""
        return f"operators: {called}{self._sentence(names[:most])}{more}"

    def _sentence(self, names: Sequence[str]) -> str:
        """`each of the 31 recorded tests ran matmul, div; some ran where (12), add (3)`."""
        each = [name.removeprefix("aten::") for name in names if self.ran[name] >= self.looked_at]
        some = [
            f"{name.removeprefix('aten::')} ({self.ran[name]})" for name in names if self.ran[name] < self.looked_at
        ]
        of = f"of the {self.looked_at} recorded tests" if self.looked_at > 1 else "recorded test"
        if not each:
            return f"some {of} ran {', '.join(some)}"
        whole = f"{'each' if self.looked_at > 1 else 'the one'} {of} ran {', '.join(each)}"
        return f"{whole}; some ran {', '.join(some)}" if some else whole


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that is amiss in a file of results."""

    path: str
    where: str
    """`line 3`, or `row 2, column median`; empty where it is the whole file."""
    why: str

    def __str__(self) -> str:
        return f"{', '.join(filter(None, (self.path, self.where)))}: {self.why}"
