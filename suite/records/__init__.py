"""The records that flow through the suite: frozen, one per arrow of the data flow, free of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STATUSES = ("passed", "wrong", "raised", "died", "hung", "declined", "missing")
FAILURES = ("wrong", "raised", "died", "hung")
DTYPES = ("float64", "float32", "float16", "bfloat16")

EVERY_CASE = "*"
"""The case of a row that speaks of all cases at once: a missing library, an import that raised."""

MEASURED_STATUSES = ("measured", "out_of_memory", "raised", "died", "hung", "refused", "declined", "missing")
TOO_SLOW = "too slow"
"""How the detail begins where an implementation is declined because a call takes too long."""
BENCHMARK_FAILURES = ("raised", "died", "hung", "refused")
DIRECTIONS = ("forward", "backward", "forward_backward")
CACHES = ("hot", "cold")
PROFILES = ("quick", "standard", "full")
BASELINE, MODEL_BASELINE = "matmul", "eager"
MODELS = ("transformer", "vision_transformer", "seq2seq_attention")


def baseline(contract: str) -> str:
    """The implementation of a contract that others are compared with."""
    return MODEL_BASELINE if contract in MODELS else BASELINE


class UsageError(Exception):
    """A request that cannot be carried out: one line that says what came and what exists. Exit status 2."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one implementation on one case in one dtype.

    `error_ratio` is the largest error in units of the oracle's bound; `seconds` is the time of the answer. `known`
    names the finding that records this failure, or is empty.
    """

    implementation: str
    contract: str
    case: str
    dtype: str
    device: str
    status: str
    detail: str = ""
    error_ratio: float | None = None
    seconds: float | None = None
    known: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What a resumed run looks up to see whether this was asked already."""
        return (self.implementation, self.case, self.dtype, self.device)

    @property
    def fails(self) -> bool:
        """Whether this outcome alone makes a check fail: a failure that no finding records."""
        return self.status in FAILURES and not self.known


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one implementation took for one workload: raw samples, never a summary of them.

    Where `status` is not `measured` there is no time, and `detail` says why.
    """

    implementation: str
    contract: str
    workload: str
    dtype: str
    device: str
    threads: int
    """Threads (and, where the system allows, cores) that a CPU implementation may use; 0 on other devices."""
    direction: str
    """`forward`, `backward` alone (its forward untimed, never by subtraction), or both in one: `forward_backward`."""
    cache: str
    """`cold`: flushed before each call; `hot`: as the call before left it."""
    status: str
    detail: str = ""
    seconds: tuple[float, ...] = ()
    """One sample a round, in the order of rounds, which it shares with every other row of its table in this run."""
    calls: int = 0
    """How many calls each sample is the mean of."""
    stopped: str = ""
    """Why rounds ended: `narrow` (the intervals were), `budget` (the time was spent)."""
    first_call: float | None = None
    """Seconds of the very first call: compiling, building a session, loading code."""
    warm_up: float | None = None
    """Seconds spent in calls before the first sample, without the first call."""
    making: Mapping[str, float | None] = field(default_factory=dict)
    """What it took to make a model: `factory`, seconds in all; and in the model's own word, where it says so, the
    seconds of `export`, now or once for all, and of the start of a `session`, and the bytes of its `file`."""
    memory: Mapping[str, float | None] = field(default_factory=dict)
    """Bytes by meter, all net of inputs; of a backward with the forward before it.

    - `output`, what the call returns
    - `resident`, the peak of the process over one settled call
    - `retained`, what the process has kept since before the first call, without pages of files
    - `constant` and `calibration`, what the resident meter says of a call that allocates nothing, and of each byte of
      known allocations
    - `allocator`, the peak of PyTorch's CUDA allocator; `driver`, what NVML says that the process came to hold
    """
    work: Mapping[str, float] = field(default_factory=dict)
    """`attended` and `convention`: FLOPs by the pairs attended, and as FlashAttention counts; `bytes`, moved once."""
    ceilings: Mapping[str, float] = field(default_factory=dict)
    """What this machine reached in the same run: `flops` per second in a matrix product, `bytes` per second copied."""
    error_ratio: float | None = None
    """The largest error, in bounds, of the sampled rows of one timed round chosen at random."""
    kernel: str = ""
    """The operators or kernels that really ran, the longest first; empty where no profiler sees them."""
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    """On GPUs: clocks in MHz, temperature in °C, power in W, J per call, throttle reasons. A value that is null has its
    reason in `<name>_absent`."""
    known: str = ""
    """The finding for which it is refused, or empty."""

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
        threads = {0: "", 1: "1 thread"}.get(self.threads, f"{self.threads} threads")
        return " ".join(filter(None, (self.workload, self.dtype, self.device, threads, self.direction, self.cache)))

    @property
    def fails(self) -> bool:
        """Whether this row alone makes a benchmark fail. Memory is a limit of the machine, and no failure."""
        return self.status in BENCHMARK_FAILURES and not self.known


@dataclass(frozen=True, slots=True)
class Machine:
    """What machine this is. `name` is also its folder in results/."""

    name: str
    processor: str
    cores: int
    threads: int
    memory_bytes: int
    system: str
    accelerators: tuple[str, ...] = ()
    caches: Mapping[str, int] = field(default_factory=dict)
    """Bytes of one instance by level: `L1d`, `L1i`, `L2`, `L3`. What the system does not tell is left out."""
    accelerator_facts: Mapping[str, Any] = field(default_factory=dict)
    """`driver` and the version of CUDA that it offers (`cuda`), and in the order of `accelerators` `memory_bytes` and
    the set `power_limit` in W. A value that is null has its reason in `<name>_absent`; empty without accelerators."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the suite: where, when, of what. Rows carry its `id`.

    `sources` maps each implementation to the hash of its file, `suite` is the hash of the suite's own sources, `asked`
    is the request in words: a run resumes only what was asked alike, with the same sources, versions and machine.
    """

    id: str
    started: str
    machine: Machine
    versions: Mapping[str, str]
    commit: str
    sources: Mapping[str, str]
    suite: str
    finished: str = ""
    format: int = 1
    asked: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Example:
    """One numeric example of a source document: what it prints, what the oracle computes, and who reproduces it.

    `statuses` maps each implementation that was asked to one status. `printed` is empty where the document shows a
    picture or states a fact; `note` says what is wrong with the document itself, where something is.
    """

    id: str
    document: str
    section: str
    quantity: str
    printed: str = ""
    computed: str = ""
    statuses: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


EXEMPT = frozenset({"documents"})
"""Families that need not be necessary, nor make others so: the documents' examples are there for themselves."""


@dataclass(frozen=True)
class Audit:
    """What the audit found. `catches` maps each deviation to the cases that caught it, by family."""

    catches: Mapping[str, Mapping[str, frozenset[str]]]
    says: Mapping[str, str]
    """Each deviation's mistake in words."""
    sources: Mapping[str, str]
    """Where it happened, or empty."""
    families: Mapping[str, int]
    """Each family and how many cases it has."""
    strangers: Mapping[str, str]
    """Each correct stranger and what it is; those whose libraries are missing are left out and in `absent`."""
    accusations: Sequence[Outcome]
    controls: Sequence[str]
    """Complaints about the deviations' own computations without any mistake: there must be none."""
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def missed(self) -> list[str]:
        """Deviations that no case catches."""
        return [name for name, families in self.catches.items() if not families]

    @property
    def unnecessary(self) -> list[str]:
        """Families that catch nothing that no other family catches."""
        return [family for family in self.families if family not in EXEMPT and not self.caught_only_by(family)]

    def caught_only_by(self, family: str) -> list[str]:
        """Deviations that no other family catches, exempt ones aside."""
        return [name for name, families in self.catches.items() if set(families) - EXEMPT == {family}]

    @property
    def distinct(self) -> int:
        """How many different sets of failing cases the deviations have."""
        return len({frozenset().union(*families.values()) for families in self.catches.values() if families})

    @property
    def passed(self) -> bool:
        return not (self.missed or self.unnecessary or self.accusations or self.controls)
