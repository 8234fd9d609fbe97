"""What to time: the request of a user, and the tables of measurements that it selects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import inf

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own
import torch

from attnsuite.benchmark.measure.messages import Job, NoResult
from attnsuite.benchmark.processes import check_threads, cores
from attnsuite.cases import ALL_CORES, Contract, Workload
from attnsuite.conformance.request import check_device
from attnsuite.conformance.selection import matches
from attnsuite.model import PASSES, PROFILES, SHAPE, STEP, Measurement, Shard, Status, UsageError
from attnsuite.model.limits import TIME_LIMIT, check_cache, check_dtypes, check_processes, check_profile, check_seconds
from attnsuite.registry import Declaration, Loaded

BUDGETS = {"quick": 0.3, "standard": 2.5, "gpu": 0.2, "full": 2.5}
"""Seconds of timed calls for each implementation in each table, by profile. Every table gets the rounds that a
verdict needs in any case."""
BUDGET_OF_NAMED = BUDGETS["quick"]
"""The same for named workloads without a profile, so that work on a kernel gets a verdict in seconds."""
SLOWEST = {"quick": 1.0, "standard": 5.5, "gpu": 0.5, "full": 20.0}
"""Seconds that a call may take, by profile; without one, as in `standard`. Twelve rounds of a slower call would
exceed the time of the whole profile."""
ON_GPU = {"full": (0.5, 1.0)}
"""The budget and the slowest call on a GPU if they differ, so that `full` fits into two hours."""
PROCESSES = 2
"""Timed processes of each implementation in a whole profile: the fewest that show differences between processes."""
MEMORY_SHARE = 0.25
"""The share of the machine's memory that one process may take, so that the machine does not swap."""
LARGEST, GIB = 2**63 - 1, 2**30
"""Bytes: the largest tensor, and a GiB."""

Implementation = Declaration | Loaded
"""What is timed: a declared implementation, or a function object."""


def declaration_of(implementation: Implementation) -> Declaration:
    """The declaration of an implementation."""
    return implementation.declaration if isinstance(implementation, Loaded) else implementation


@dataclass(frozen=True)
class Table:
    """One comparison, measured round by round: one workload in one dtype and direction, on a number of threads."""

    workload: Workload
    dtype: str
    direction: str
    threads: int
    cache: str

    @property
    def title(self) -> str:
        """The workload and the direction, in words."""
        return f"{self.workload.name} {self.direction.replace('_', ' and ')}"

    def job(self, contract: Contract, declaration: Declaration) -> Job:
        """The task of an implementation, by name."""
        names = contract.name, self.workload.name, self.dtype, self.direction, self.cache
        return Job(*names, dict(declaration.conventions))

    def under(self, declaration: Declaration) -> Table:
        """The same table under the conventions that an implementation declares."""
        return replace(self, workload=self.workload.under(declaration.conventions))

    def row(self, name: str, contract: str, device: str, failed: NoResult | None = None) -> Measurement:
        """The row of an implementation that failed, or an empty row to fill with times."""
        key = name, contract, self.workload.name, self.dtype, device, self.threads, self.direction, self.cache
        return Measurement(*key, Status.MEASURED) if failed is None else Measurement(*key, **vars(failed))

    def features(self, contract: Contract) -> frozenset[str]:
        """The features that a call needs."""
        return contract.needs((self.workload.call(self.dtype, self.direction, device="meta"),))

    def unsupported(self, declaration: Declaration, contract: Contract, kind: str) -> NoResult | None:
        """Why an implementation does not support this on that kind of device, by its signature or declaration, or None.

        A model that promises no error bound is timed under any conventions.
        """
        call = self.workload.call(self.dtype, self.direction, device="meta")
        if declaration.parameters is not None and (untaken := call.arguments - frozenset(declaration.parameters)):
            return NoResult(Status.UNSUPPORTED, f"takes no {' and no '.join(sorted(untaken))}")
        features, conventions = self.features(contract), declaration.conventions
        needs = features | {self.dtype, kind}
        lacks = [f"lacks {gap}: {why}" for gap, why in declaration.lacks.items() if gap in needs]
        undefined = "" if contract.is_model else contract.undefined_reason(self.workload, features, conventions)
        reasons = [reason for reason in (*lacks, undefined) if reason]
        return NoResult(Status.UNSUPPORTED, reasons[0]) if reasons else None


@dataclass(frozen=True)
class Request:
    """What to time, on which device. Raises UsageError for unknown names.

    `workloads` are names, groups or shell patterns; a group without a profile means its part of `standard`, on a GPU of
    `full`. `threads` are thread counts for a CPU, by default one, and all cores if the workload's profile has them.
    `backward` times backward alone and forward and backward together for every workload, `step` a training step for
    each that has one; forward is timed with either. `budget`, in seconds, replaces the profile's.
    """

    workloads: tuple[str, ...] = ()
    profile: str | None = None
    device: str = "cpu"
    backward: bool = False
    cache: str | None = None
    threads: tuple[int, ...] = ()
    time_limit: float = TIME_LIMIT
    budget: float | None = None
    step: bool = False
    dtypes: tuple[str, ...] = ()
    """Dtypes in place of those that workloads name."""
    shapes: tuple[str, ...] = ()
    """Shapes on the command line, in addition to named workloads."""
    baseline: str = ""
    """The name, without the contract, of the baseline in place of the contract's own."""
    shard: Shard | None = None
    """The shard of workloads to time; the tables of one workload stay together."""
    processes: int | None = None
    """Number of processes of each implementation that take samples in turns; None for the default."""

    def __post_init__(self) -> None:
        check_device(self.device)
        if self.profile is not None:
            check_profile(self.profile, PROFILES)
        check_dtypes(self.dtypes)
        check_cache(self.cache)
        check_seconds("time limit", self.time_limit, below=inf)
        check_seconds("budget", 1.0 if self.budget is None else self.budget, below=inf)
        if self.processes is not None:
            check_processes(self.processes)
        check_threads(self.threads)

    @property
    def in_processes(self) -> int:
        """Number of timed processes of each implementation: two for a whole profile on a CPU, else one.

        On a GPU each process takes memory for itself.
        """
        whole = self.kind == "cpu" and not self.workloads and not self.shapes
        return self.processes or (PROCESSES if whole else 1)

    @property
    def kind(self) -> str:
        """The device's kind: cpu or cuda."""
        return torch.device(self.device).type

    @property
    def timed_as(self) -> str | None:
        """The profile: `quick` by default, None for named workloads."""
        return self.profile or (None if self.workloads or self.shapes else "quick")

    @property
    def seconds(self) -> float:
        """The budget of an implementation in a table."""
        return self._usual[0] if self.budget is None else self.budget

    @property
    def slowest(self) -> float:
        """Seconds that a call may take."""
        return self._usual[1]

    @property
    def _usual(self) -> tuple[float, float]:
        """The profile's budget and slowest call."""
        profile = self.timed_as
        if profile is None:
            return BUDGET_OF_NAMED, SLOWEST["standard"]
        usual = BUDGETS[profile], SLOWEST[profile]
        return usual if self.kind == "cpu" else ON_GPU.get(profile, usual)

    @property
    def words(self) -> str:
        """The request as text; only the same request resumes a run."""
        words = [f"bench on {self.device}", *([f"profile {self.timed_as}"] if self.timed_as else []), *self.workloads]
        words += [f"shape {shape}" for shape in self.shapes] + list(self.dtypes)
        words += [f"baseline {self.baseline}"] if self.baseline else []
        words += [f"threads {' '.join(map(str, self.threads))}"] if self.threads else []
        words += [f"{self.processes} processes"] if self.processes is not None else []
        words += [f"budget {self.budget:g} s"] if self.budget is not None else []
        words += [self.cache] if self.cache else []
        return ", ".join([*words, *(["backward"] if self.backward else []), *([STEP] if self.step else [])])

    def tables(self, contract: Contract) -> list[Table]:
        """The tables in the order of measuring, grouped by thread count. Raises UsageError for an empty selection.

        A shard may have none of them.
        """
        chosen = self._chosen(contract)
        names, steps = (
            ", ".join(workload.name for workload in chosen),
            any(STEP in workload.directions for workload in chosen),
        )
        if self.backward and not any("backward" in workload.directions for workload in chosen):
            how = ", or as a training step" if steps else " alone"
            raise UsageError(f"{names}: {contract.name} has no backward; it is timed forward{how}")
        if self.step and not steps:
            raise UsageError(f"{names}: there is no training step of {contract.name} to time")
        tables = [
            Table(workload, dtype, direction, threads, self.cache or ("cold" if self.kind == "cuda" else "hot"))
            for workload in chosen
            for dtype in self._dtypes(workload)
            for threads in self._threads(workload)
            for direction in self._directions(workload)
        ]
        if not tables:
            raise UsageError(f"{names}: not timed on {self.device}")
        for table in tables:
            if table.workload.name.startswith(SHAPE):
                _check_size(table, memory_limit() if self.kind == "cpu" else LARGEST)
        if shard := self.shard:
            tables = [table for table in tables if shard.takes(contract.name, table.workload.name)]
        return sorted(tables, key=lambda table: table.threads)

    def _dtypes(self, workload: Workload) -> Sequence[str]:
        """The dtypes of the request, or the workload's own; none if it is not timed on such a device."""
        own = workload.dtypes.get(self.kind, ())
        return list(dict.fromkeys(self.dtypes)) if own and self.dtypes else own

    def _chosen(self, contract: Contract) -> list[Workload]:
        """The workloads of the names and the shapes. Raises UsageError for unknown ones."""
        typed = list(dict.fromkeys(contract.workload_of_shape(shape) for shape in self.shapes))
        return [*(self._named(contract) if self.workloads or not typed else ()), *typed]

    def _named(self, contract: Contract) -> list[Workload]:
        """The workloads that the patterns and the profile select; a group means its usual part on such a device."""
        everything = list(contract.workloads())
        whole = self.profile or ("standard" if self.kind == "cpu" else "full")
        usual_groups = {workload.group for workload in everything if whole in workload.profiles}

        def is_meant(pattern: str, workload: Workload) -> bool:
            unusual = pattern == workload.group and pattern in usual_groups and whole not in workload.profiles
            return matches(workload.name, pattern) and not unusual

        for pattern in self.workloads:
            if not any(matches(workload.name, pattern) for workload in everything):
                raise UsageError(_unknown(pattern, contract, everything))
        named = [w for w in everything if not self.workloads or any(is_meant(p, w) for p in self.workloads)]
        profile = self.timed_as
        chosen = [workload for workload in named if profile is None or profile in workload.profiles]
        if not chosen:
            profiles = sorted({name for workload in named for name in workload.profiles}, key=PROFILES.index)
            patterns = ", ".join(self.workloads) or f"workloads of {contract.name}"
            raise UsageError(f"{patterns}: not in the profile {profile}, but in {', '.join(profiles)}")
        return chosen

    def _threads(self, workload: Workload) -> Sequence[int]:
        if self.kind != "cpu":
            return (0,)
        counts = self.threads or workload.cores.get(self.timed_as or "", (1,))
        return list(dict.fromkeys(len(cores()) if threads == ALL_CORES else threads for threads in counts))

    def _directions(self, workload: Workload) -> Sequence[str]:
        usual = workload.profiles.get(self.timed_as or "", PASSES[:1])
        passes = PASSES if self.backward else PASSES[:1] if self.step else usual
        return [
            direction for direction in (*passes, *([STEP] if self.step else [])) if direction in workload.directions
        ]


def _unknown(pattern: str, contract: Contract, workloads: Sequence[Workload]) -> str:
    """The message about a pattern that no workload matches."""
    groups = list(dict.fromkeys(workload.group for workload in workloads))
    close = get_close_matches(pattern, [*groups, *(workload.name for workload in workloads)], n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"no workload of {contract.name} matches {pattern!r}; {hint}groups are: {', '.join(groups)}"


def _check_size(table: Table, limit: int) -> None:
    """Raise UsageError if the inputs of a `--shape` take more than `limit` bytes."""
    try:
        tensors = table.workload.call(table.dtype, table.direction, device="meta").tensors.values()
        needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    except RuntimeError:  # PyTorch counts bytes in 63 bits
        needed = LARGEST + 1
    if needed > limit:
        size = f"{needed / GIB:.3g} GiB" if needed <= LARGEST else f"more than {LARGEST / GIB:.3g} GiB"
        raise UsageError(
            f"--shape {table.workload.name.removeprefix(SHAPE)!r}: its inputs take {size} in {table.dtype}; a process "
            f"that is timed may take {limit / GIB:.3g} GiB; choose smaller sizes"
        )


def with_gradients(tables: Iterable[Table]) -> bool:
    """Whether gradients are timed."""
    return any(table.direction != PASSES[0] for table in tables)


def memory_limit() -> int:
    """Bytes that one process may take."""
    return int(psutil.virtual_memory().total * MEMORY_SHARE)
