"""The rows of result files: typed structs whose annotations are their checks, and their statuses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta, Struct, field, to_builtins
from msgspec.structs import force_setattr

from attnsuite.model.words import escaped

MAX_TEXT = 2000
"""Characters of a text that a row stores: a submission may raise an exception of megabytes."""
INFINITE = 1e308
"""Infinity in a file: JSON has none."""

Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
"""A number that is not negative: seconds, bytes, FLOPs, an error divided by its tolerance."""
Sample: TypeAlias = Annotated[float, Meta(gt=0)]
"""Seconds of one timed call."""


class Row(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A row of a file of results: a field at its default is not written, and an unknown field is an error."""

    DIGITS: ClassVar[int] = 6
    """Significant digits of its numbers in a file."""


def lean(row: Row, longest: int = MAX_TEXT) -> dict[str, Any]:
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
        return {_short(name, digits, longest): _short(item, digits, longest) for name, item in value.items()}
    return [_short(item, digits, longest) for item in value] if isinstance(value, list) else value


class Status(StrEnum):
    """The result of a test (in an outcome) or of a workload (in a measurement). The values are those in JSON rows."""

    PASSED = "passed"
    MEASURED = "measured"
    FAILED = "failed"
    ERROR = "error"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    REFUSED = "refused"
    """There is no time, because the implementation fails its contract on features of the workload."""
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
"""Outcomes that make a check fail, unless a known bug covers them."""

WITHOUT_RESULT = (Status.CRASHED, Status.TIMEOUT)
"""Failures without a result: repeating the test may take as long again."""
BENCHMARK_FAILURES = (Status.ERROR, Status.CRASHED, Status.TIMEOUT, Status.REFUSED)
"""Measurements that make a benchmark fail. Running out of memory is a limit of the machine, not a failure."""


class Reason(StrEnum):
    """Why a test or a workload has no result, if the status alone does not say it."""

    NONE = ""
    UNTAKEN = "untaken"
    """The signature lacks a parameter that the case needs."""
    LACKING = "lacking"
    """The implementation declares that it lacks a feature that the case needs."""
    AT_RUN_TIME = "at_run_time"
    """The implementation raised NotImplementedError when it was called."""
    UNDEFINED = "undefined"
    """Under the declared convention the case has no defined result."""
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
"""The beginning of the detail where bad input was accepted without further harm."""


class Outcome(Row, frozen=True):
    """The result of one implementation on one case in one dtype.

    `error_ratio` is the largest error divided by its tolerance; `seconds` is the time of the calls. `known` names
    the known bug that covers this failure, or is empty. `reason` says why there is no result.
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
    """The mutants that give the same wrong result, the likeliest first; `detail` describes them."""
    reason: Reason = Reason.NONE

    def __post_init__(self) -> None:
        if not self.detail.isprintable():  # it may be a submission's text
            force_setattr(self, "detail", escaped(self.detail))
        if self.error_ratio is not None and self.error_ratio >= INFINITE:
            force_setattr(self, "error_ratio", math.inf)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The identity of the row, by which a resumed run finds what is done."""
        return (self.implementation, self.case, self.dtype, self.device)

    @property
    def says(self) -> str:
        """The status and the detail in one line; the status once, also if the detail begins with it."""
        if self.detail.startswith(f"{self.status}:"):
            return self.detail
        return f"{self.status}: {self.detail}" if self.detail else str(self.status)

    @property
    def fails(self) -> bool:
        """Whether this outcome makes a check fail: a failure that is neither known nor lenient."""
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
"""The names of the meters of `Measurement.memory`."""
METER_ERROR = 2**20
"""Bytes by which the resident meter may be off, because the system adds up the pages of threads at intervals. Peaks of
one call on one machine differ by up to 0.3 MiB. Smaller differences are not reported."""


Direction: TypeAlias = Annotated[str, Meta(pattern=r"^(forward|backward|forward_backward|step|\*)$")]
Cache: TypeAlias = Annotated[str, Meta(pattern=r"^(hot|cold|\*)$")]


class Measurement(Row, frozen=True):
    """The time and memory of one implementation on one workload: raw samples, never a summary.

    Where `status` is not `measured` there is no time, and `detail` says why.
    """

    implementation: Name
    contract: Name
    workload: Name
    dtype: Name
    device: Name
    threads: Count
    """Threads (and, where the system allows it, cores) of a CPU implementation; 0 on other devices."""
    direction: Direction
    """`forward`, `backward` alone (its forward untimed), both in one (`forward_backward`), or a training `step`."""
    cache: Cache
    """`cold`: flushed before each call; `hot`: as the previous call left it."""
    status: Status
    detail: Text = ""
    seconds: tuple[Sample, ...] = ()
    """One sample for each round, in order; all rows of a table share their rounds."""
    processes: Annotated[str, Meta(pattern="^[0-9]*$")] = ""
    """The process of each sample, as a digit; empty where one process took all."""
    calls: Count = 0
    """The number of calls whose mean is a sample."""
    stopped: Text = ""
    """Why rounds ended: `narrow` intervals, or the time `budget`."""
    first_call: Amount | None = None
    """Seconds of the first call: compiling, building a session, loading code."""
    warm_up: Amount | None = None
    """Seconds spent in calls before the first sample, without the first call."""
    making: Mapping[str, Amount | None] = field(default_factory=dict)
    """The cost of making a model: `factory`, seconds in total; and, where the model reports them, the seconds of
    `export`, now or once, and of the start of a `session`, and the bytes of its `file`."""
    memory: Mapping[str, Amount | None] = field(default_factory=dict)
    """Bytes by meter, all net of inputs; of a backward with the forward before it.

    - `output`, what the call returns
    - `resident`, the peak of the process during one call, without memory that stays after the first
    - `retained`, the growth of the process since before the first call, without pages of files
    - `constant` and `calibration`, the resident meter's value for a call that allocates nothing, and for each byte of
      known allocations
    - `allocator`, the peak of PyTorch's CUDA allocator; `driver`, the growth of NVML's used memory during a call
    """
    work: Mapping[str, Amount] = field(default_factory=dict)
    """`attended` and `convention`: FLOPs by the pairs attended, and as FlashAttention counts; `bytes`, moved once."""
    ceilings: Mapping[str, Amount] = field(default_factory=dict)
    """The machine's rates in the same run: `flops` per second in a matrix product, `bytes` per second copied. Where an
    earlier run measured them, `age` is the seconds since then."""
    error_ratio: Amount | None = None
    """The largest error, divided by its tolerance, of sampled rows of a randomly chosen timed round."""
    own_clock: Sample | None = None
    """The time of a call by the suite's own clock, as a multiple of the median of `seconds`: in its samples and, where
    calls take 0.25 ms or more, on new numbers. None where that clock does not bound it; then `detail` says why."""
    relative_error: Mapping[str, Amount] = field(default_factory=dict)
    """Of models: the errors of those rows as shares of the norm of the expected values: `largest`, and `rms`, the root
    mean square. No verdict depends on it."""
    kernel: Text = ""
    """The operators or kernels that ran, the longest first; empty where no profiler sees them."""
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    """On GPUs: clocks in MHz, temperature in °C, power in W, throttle reasons, and J per call, of consecutive calls
    without flushes. A value that is null has its reason in `<name>_absent`."""
    known: Text = ""
    """The known bug for which it is refused, or empty."""
    reason: Reason = Reason.NONE
    """Why there is no time, where the status alone does not say it."""

    def __post_init__(self) -> None:
        if not self.detail.isprintable():  # it may be a submission's text
            force_setattr(self, "detail", escaped(self.detail))

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of the row, by which a resumed run finds what is done."""
        return (self.implementation, *self.table)

    @property
    def peak(self) -> float | None:
        """Peak memory of one call net of inputs, its output included.

        By the allocator on CUDA; else resident and retained memory together, because a library may keep its workspace
        between calls.
        """
        if self.memory.get("allocator") is not None:
            return self.memory["allocator"]
        resident, retained = self.memory.get("resident"), self.memory.get("retained")
        return None if resident is None else resident + (retained or 0.0)

    @property
    def table(self) -> tuple[str, ...]:
        """The key of the table: its rows were measured in the same rounds and may be compared."""
        return (self.workload, self.dtype, self.device, str(self.threads), self.direction, self.cache)

    @property
    def group(self) -> str:
        """The table in words: `ladder/1k float32 cpu 1 thread forward hot`."""
        return table_in_words(self.workload, self.dtype, self.device, self.threads, self.direction, self.cache)

    @property
    def fails(self) -> bool:
        """Whether this row makes a benchmark fail: a failure that is not a known bug."""
        return self.status in BENCHMARK_FAILURES and not self.known


def table_in_words(workload: str, dtype: str, device: str, threads: int, direction: str, cache: str) -> str:
    """A timed table in words: `ladder/1k float32 cpu 1 thread forward hot`."""
    counted = {0: "", 1: "1 thread"}.get(threads, f"{threads} threads")
    return " ".join(filter(None, (workload, dtype, device, counted, direction, cache)))


Losses: TypeAlias = Annotated[tuple[float, ...], Meta(min_length=1)]
"""The mean loss of each epoch."""


WRONG_GRADIENTS, RIGHT_GRADIENT = "wrong-gradients", "right"
"""The task that trains attentions with wrong gradients, and the name of the right one there."""


class TrainingRow(Row, frozen=True):
    """A completed training from one seed."""

    implementation: Name
    """The attention that was the backend; the model itself where it takes none."""
    task: Name
    seed: Count
    device: Name
    curve: Losses
    scores: Mapping[str, float]
    """Scores by name, on data that was not trained on."""
    printed: Mapping[str, float] = field(default_factory=dict)
    """The documents' scores, by the same names."""
    baselines: Mapping[str, float] = field(default_factory=dict)
    """Scores of simpler methods on the same data, by method."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The task's config: sizes, rates, epochs."""
    seconds: Amount | None = None
    """Seconds of processor time for its epochs, those before an interruption included."""
    without: tuple[Text, ...] = ()
    """Features of the task that the attention lacks and that were left out: dropout of weights."""

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of the row, by which a resumed run finds what is done."""
        return (self.implementation, self.task, str(self.seed), self.device)


Samples: TypeAlias = tuple[float, ...]
"""Measured numbers: one for each round, draw or seed."""


class ClaimStatus(StrEnum):
    """Whether a measurement confirms a claim. The values are those in JSON rows."""

    HOLDS = "holds"
    """The interval lies within the range in which the claim holds."""
    DOES_NOT = "does not hold"
    """The interval lies outside it."""
    UNCLEAR = "unclear"
    """The interval crosses a border of the range, or there are too few samples for an interval."""
    ERROR = "error"
    """The measurement raised an exception."""
    MISSING = "missing"
    """A library that the measurement needs is not installed."""


class Evidence(StrEnum):
    """How a claim is measured."""

    EXACT = "exact"
    """Computed or counted: the same on every machine, except for rounding."""
    DRAWN = "drawn"
    """A sample of random numbers with fixed seeds."""
    TRAINED = "trained"
    """A model, trained once for each seed."""
    TIMED = "timed"
    """Timed by the suite's stopwatch, on one thread."""


NO_DOCUMENT = "no document"
"""The document of a claim that no document makes."""


class ClaimResult(Row, frozen=True):
    """The result of checking a claim of a document."""

    implementation: Name
    """`claims/` and the topic: rows in results/ are counted by it."""
    claim: Name
    device: Name
    document: Name
    section: Text
    statement: Text
    """The claim of the document, in words."""
    quantity: Text
    """The measured quantity, in words."""
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
    """Further information, such as the reason why there is no value."""
    why: Text = ""
    """The reason why the claim does not hold, for a reader of the document."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Intermediate numbers, by name."""
    samples: Samples = ()
    seconds: Amount | None = None
    """Seconds that the measurement took."""

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of the row, by which a resumed run finds what is done."""
        return (self.implementation, self.claim, self.device)

    @property
    def fails(self) -> bool:
        """Whether the measurement raised an exception. A claim that does not hold is no failure."""
        return self.holds == ClaimStatus.ERROR


class Repetition(Row, frozen=True):
    """A time of the baseline (`place` 0), or of an implementation identical to it, in the same run."""

    run: Name
    """When the run started, which identifies it."""
    workload: Name
    threads: Count
    place: Count
    seconds: Sample
    """The median time of a call."""
    ratio: Sample
    """The median over rounds of the ratio of its time to the baseline's; 1 for the baseline."""

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of the row."""
        return self.run, self.workload, str(self.threads), str(self.place)


ATTENTION = "attention"
"""A part of the names of PyTorch's own attention operators."""
MAX_NAMED = 6
"""Operators in a line; of more, the others are counted."""


class Operators(Row, frozen=True):
    """The number of recorded tests in which each operator ran, of `looked_at` tests."""

    looked_at: Count
    ran: Mapping[str, Count] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """A line, with PyTorch's own attention first."""
        if not self.ran:
            recorded = f"{self.looked_at} recorded tests" if self.looked_at > 1 else "one recorded test"
            return f"operators: none of PyTorch's ran in the {recorded}"
        attention = [name for name in self.ran if ATTENTION in name]
        names = sorted(self.ran, key=lambda name: (name not in attention, -self.ran[name], name))
        called = "PyTorch's own attention is called; " if any(name.startswith("aten::") for name in attention) else ""
        more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        return f"operators: {called}{self._sentence(names[:MAX_NAMED])}{more}"

    def _sentence(self, names: Sequence[str]) -> str:
        """`each of the 31 recorded tests ran matmul, div; some ran where (12), add (3)`."""
        everywhere = [name.removeprefix("aten::") for name in names if self.ran[name] >= self.looked_at]
        some = [
            f"{name.removeprefix('aten::')} ({self.ran[name]})" for name in names if self.ran[name] < self.looked_at
        ]
        tests = f"of the {self.looked_at} recorded tests" if self.looked_at > 1 else "recorded test"
        if not everywhere:
            return f"some {tests} ran {', '.join(some)}"
        whole = f"{'each' if self.looked_at > 1 else 'the one'} {tests} ran {', '.join(everywhere)}"
        return f"{whole}; some ran {', '.join(some)}" if some else whole


@dataclass(frozen=True, slots=True)
class Refusal:
    """One defect of a file of results."""

    path: str
    where: str
    """`line 3`, or `row 2, column median`; empty for the whole file."""
    why: str

    def __str__(self) -> str:
        return f"{', '.join(filter(None, (self.path, self.where)))}: {self.why}"
