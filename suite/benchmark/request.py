"""What to time: a request in words, made into the tables that it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import inf

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own
import torch

from attnsuite.benchmark.measure.protocol import Failed, Job
from attnsuite.benchmark.processes import check_threads, cores
from attnsuite.cases import ALL_CORES, Contract, Conventions, Workload
from attnsuite.conformance.request import check_device
from attnsuite.conformance.selection import matches
from attnsuite.model import PASSES, PROFILES, SHAPE, STEP, Measurement, Shard, Status, UsageError
from attnsuite.model.limits import TIME_LIMIT
from attnsuite.model.options import check_cache, check_dtypes, check_processes, check_profile, check_seconds
from attnsuite.registry import Declaration

BUDGETS = {"quick": 0.3, "standard": 2.5, "full": 2.5}
"""Seconds of timed calls for each implementation in each table, by profile. Every table gets in any case the rounds
without which no verdict is possible."""
BUDGET_OF_NAMED = BUDGETS["quick"]
"""The same where workloads are named and no profile: whoever works on a kernel has a verdict in seconds, over and over,
and asks for narrower intervals where he wants them."""
SLOWEST = {"quick": 1.0, "standard": 5.5, "full": 20.0}
"""Seconds that a call may take, by profile; where there is none, as in `standard`. A slower implementation is not timed
on that workload, and its row says so: with twelve rounds of each call, a table of a slower one would take longer than
the whole profile has."""
ON_GPU = {"full": (0.5, 1.0)}
"""The budget and the slowest call on a GPU, where they are others: so that `full` fits into two hours there. Its calls
take milliseconds, and what takes a second does not use the GPU."""
PROCESSES = 2
"""The processes of each implementation that are timed where a whole profile is: the fewest that differ."""
MEMORY_SHARE = 0.25
"""The part of the machine's memory that one process may take, so that the machine does not begin to swap."""

LARGEST, GIB = 2**63 - 1, 2**30
"""Bytes: the most that a tensor can have, and a GiB."""


@dataclass(frozen=True)
class Table:
    """What is measured together, round by round: one workload in one dtype and direction, on a number of threads."""

    workload: Workload
    dtype: str
    direction: str
    threads: int
    cache: str

    @property
    def says(self) -> str:
        """The workload and the direction, in words."""
        return f"{self.workload.name} {self.direction.replace('_', ' and ')}"

    def job(self, contract: Contract, declaration: Declaration) -> Job:
        """What is measured of an implementation, by name."""
        of = contract.name, self.workload.name, self.dtype, self.direction, self.cache
        return Job(*of, dict(declaration.conventions))

    def under(self, declaration: Declaration) -> Table:
        """The same as it is asked of an implementation, by the conventions that this declares."""
        return replace(self, workload=self.workload.under(declaration.conventions))

    def row(self, name: str, contract: str, device: str, failed: Failed | None = None) -> Measurement:
        """The row of an implementation in this table: of one that failed, or, yet without times, of one measured."""
        key = name, contract, self.workload.name, self.dtype, device, self.threads, self.direction, self.cache
        return Measurement(*key, Status.MEASURED) if failed is None else Measurement(*key, **vars(failed))

    def features(self, contract: Contract) -> frozenset[str]:
        """What a call needs of an implementation."""
        return contract.needs((self.workload.call(self.dtype, self.direction, device="meta"),))

    def declined(self, declaration: Declaration, contract: Contract, kind: str) -> Failed | None:
        """Why an implementation is not timed on that kind of device, by signature or declaration; None where it is."""
        call = self.workload.call(self.dtype, self.direction, device="meta")
        if declaration.parameters is not None:
            untaken = sorted(call.arguments - frozenset(declaration.parameters))
            if untaken:
                return Failed(Status.DECLINED, f"takes no {' and no '.join(untaken)}")
        needs = self.features(contract) | {self.dtype, kind}
        lacks = (f"lacks {gap}: {why}" for gap, why in declaration.lacks.items() if gap in needs)
        undefined = self._undefined(contract, declaration.conventions)
        return next((Failed(Status.DECLINED, gap) for gap in filter(None, (*lacks, undefined))), None)

    def _undefined(self, contract: Contract, conventions: Conventions) -> str:
        """Why its answer would mean nothing under these conventions, or empty. A model that promises no limit of its
        errors is timed, and its errors are measured.
        """
        if contract.is_model:
            return ""
        return contract.unanswerable(self.workload, self.features(contract), conventions)


@dataclass(frozen=True)
class Request:
    """What to time, on which device. Raises UsageError for what does not exist.

    `workloads` are names, groups or shell patterns; a group without a profile is what `standard` has of it, on a GPU
    `full`. `threads` are thread counts for a CPU, by default one, and all cores where the workload's profile says so.
    `backward` times backward alone and forward and backward together for every workload, `step` a training step for
    each that has one; forward is timed beside either. `budget`, in seconds, replaces the profile's.
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
    """What is timed in place of the dtypes that workloads name."""
    shapes: tuple[str, ...] = ()
    """Workloads that a user types, timed beside those that are named."""
    baseline: str = ""
    """The implementation that others are compared with, in place of the contract's: its name without the contract."""
    shard: Shard | None = None
    """The part that is timed, of workloads: the tables of one are not divided."""
    processes: int | None = None
    """How many processes of each implementation take samples in turns; None for as many as are usual."""

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
        """How many processes of each implementation are timed: those of a whole profile are compared with each other,
        on a CPU, where a process costs seconds; on a GPU each would take memory for itself.
        """
        whole = self.kind == "cpu" and not self.workloads and not self.shapes
        return self.processes or (PROCESSES if whole else 1)

    @property
    def kind(self) -> str:
        """The device's kind: cpu or cuda."""
        return torch.device(self.device).type

    @property
    def timed_as(self) -> str | None:
        """The profile, which is `quick` where nothing is named, and none where workloads are."""
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
        profile = self.timed_as
        if profile is None:
            return BUDGET_OF_NAMED, SLOWEST["standard"]
        usual = BUDGETS[profile], SLOWEST[profile]
        return usual if self.kind == "cpu" else ON_GPU.get(profile, usual)

    @property
    def words(self) -> str:
        """The request as text: a run is resumed only by the same."""
        said = [f"bench on {self.device}", f"profile {self.timed_as}", *self.workloads]
        said += [f"shape {shape}" for shape in self.shapes] + list(self.dtypes)
        said += [f"beside {self.baseline}"] if self.baseline else []
        said += [f"threads {' '.join(map(str, self.threads))}"] if self.threads else []
        said += [f"{self.processes} processes"] if self.processes is not None else []
        said += [f"budget {self.budget:g} s"] if self.budget is not None else []
        said += [self.cache] if self.cache else []
        return ", ".join([*said, *(["backward"] if self.backward else []), *([STEP] if self.step else [])])

    def tables(self, contract: Contract) -> list[Table]:
        """The tables asked for, in the order of measuring: those of one thread count together. UsageError for none.

        Where a `shard` is asked, none of them may fall into it.
        """
        chosen = self._chosen(contract)
        if self.backward and not any("backward" in workload.directions for workload in chosen):
            names = ", ".join(workload.name for workload in chosen)
            raise UsageError(f"{names}: {contract.name} is timed forward{_or_step(chosen)}, there is no backward")
        if self.step and not any(STEP in workload.directions for workload in chosen):
            names = ", ".join(workload.name for workload in chosen)
            raise UsageError(f"{names}: there is no training step of {contract.name} to time")
        found = [
            Table(workload, dtype, direction, threads, self.cache or ("cold" if self.kind == "cuda" else "hot"))
            for workload in chosen
            for dtype in self._dtypes(workload)
            for threads in self._threads(workload)
            for direction in self._directions(workload)
        ]
        if not found:
            names = ", ".join(workload.name for workload in chosen)
            raise UsageError(f"{names}: not timed on {self.device}")
        for table in found:
            if table.workload.name.startswith(SHAPE):
                _check_size(table, memory_limit() if self.kind == "cpu" else LARGEST)
        if shard := self.shard:
            found = [table for table in found if shard.takes(contract.name, table.workload.name)]
        return sorted(found, key=lambda table: table.threads)

    def _dtypes(self, workload: Workload) -> Sequence[str]:
        """The dtypes asked for, or its own; none where it is not timed on such a device."""
        own = workload.dtypes.get(self.kind, ())
        return list(dict.fromkeys(self.dtypes)) if own and self.dtypes else own

    def _chosen(self, contract: Contract) -> list[Workload]:
        """What is named, and what is typed. UsageError where there is no such thing."""
        typed = list(dict.fromkeys(contract.of_shape(shape) for shape in self.shapes))
        return [*(self._named(contract) if self.workloads or not typed else ()), *typed]

    def _named(self, contract: Contract) -> list[Workload]:
        everything = list(contract.workloads())
        for pattern in self.workloads:
            if not any(matches(workload.name, pattern) for workload in everything):
                groups = list(dict.fromkeys(workload.group for workload in everything))
                close = get_close_matches(pattern, [*groups, *(workload.name for workload in everything)], n=1)
                hint = f"did you mean {close[0]}? " if close else ""
                raise UsageError(
                    f"no workload of {contract.name} matches {pattern!r}; {hint}groups are: {', '.join(groups)}"
                )
        whole = self.profile or ("standard" if self.kind == "cpu" else "full")
        usual = {workload for workload in everything if whole in workload.profiles}
        groups_used = {workload.group for workload in usual}

        def meant(pattern: str, workload: Workload) -> bool:
            """A group means what such a device is usually asked of it, if anything."""
            of_group = pattern == workload.group and pattern in groups_used
            return matches(workload.name, pattern) and (not of_group or workload in usual)

        named = [w for w in everything if not self.workloads or any(meant(p, w) for p in self.workloads)]
        profile = self.timed_as
        chosen = [workload for workload in named if profile is None or profile in workload.profiles]
        if not chosen:
            where = sorted({each for workload in named for each in workload.profiles}, key=PROFILES.index)
            asked = ", ".join(self.workloads) or f"workloads of {contract.name}"
            raise UsageError(f"{asked}: not in the profile {profile}, but in {', '.join(where)}")
        return chosen

    def _threads(self, workload: Workload) -> Sequence[int]:
        if self.kind != "cpu":
            return (0,)
        asked = self.threads or workload.cores.get(self.timed_as or "", (1,))
        return list(dict.fromkeys(len(cores()) if threads == ALL_CORES else threads for threads in asked))

    def _directions(self, workload: Workload) -> Sequence[str]:
        usual = workload.profiles.get(self.timed_as or "", PASSES[:1])
        asked = PASSES if self.backward else PASSES[:1] if self.step else usual
        return [direction for direction in (*asked, *([STEP] if self.step else [])) if direction in workload.directions]


def _check_size(table: Table, limit: int) -> None:
    """Raise UsageError where the inputs of a typed shape take more than `limit` bytes: no call of it can be timed."""
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


def _or_step(workloads: Sequence[Workload]) -> str:
    return ", or as a training step" if any(STEP in workload.directions for workload in workloads) else " alone"


def with_gradients(tables: Iterable[Table]) -> bool:
    """Whether not only forward calls are timed."""
    return any(table.direction != PASSES[0] for table in tables)


def memory_limit() -> int:
    """Bytes that one process may take."""
    return int(psutil.virtual_memory().total * MEMORY_SHARE)
