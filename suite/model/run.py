"""One run of the suite: its machine, its request, facts for pages, numbers of documents, explanations of failures."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import field

from attnsuite.model.rows import Count, Name, Operators, Row
from attnsuite.model.words import UsageError


class ContractFacts(Row, frozen=True, forbid_unknown_fields=False):
    """Facts about a tested contract for tables. Older runs have more of them, which no page reads."""

    baseline: str = ""
    """The implementation with which others are compared; empty where nothing is timed."""
    why: Mapping[str, str] = field(default_factory=dict)
    """Why each case exists; empty in older runs."""


class FindingFacts(Row, frozen=True):
    """A known bug of a library."""

    words: str
    implementation: str = ""
    """The names of the implementations that have it, as a pattern."""
    versions: str = ""
    """The versions of the library that have it: `torch>=2.9`."""
    reproduction: str = ""
    """Lines of Python that show it without this suite."""
    upstream: str = ""
    """The link to the report at the library."""


class WorkloadFacts(Row, frozen=True):
    """Facts about a workload for tables."""

    group: str
    shape: str
    """Its sizes in words."""
    why: str
    length: Count
    """The size on the axis of charts."""


class Facts(Row, frozen=True, forbid_unknown_fields=False):
    """What pages print with the rows of a run. Older runs have more facts, which no page reads."""

    contracts: Mapping[str, ContractFacts] = field(default_factory=dict)
    findings: Mapping[str, FindingFacts] = field(default_factory=dict)
    """Each known bug, by its id."""
    again: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The command-line words that name an implementation, where these are not its registered name."""
    workloads: Mapping[str, Mapping[str, WorkloadFacts]] = field(default_factory=dict)
    """The workloads of each contract."""
    baselines: Mapping[str, str] = field(default_factory=dict)
    """The baselines of this run that are not their contract's own, by contract."""
    whole: tuple[str, ...] = ()
    """The implementations that the shards together test on every case in every dtype."""
    claims: tuple[str, ...] = ()
    """The names of all claims, where claims were measured."""
    sampled: Mapping[str, Count] = field(default_factory=dict)
    """The implementations that were tested on a sample, with the total number of tests of each."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The part `index` of `count`, counted from 1.

    A hash of a unit's name decides its part, on every machine and in every request alike.
    """

    index: int
    count: int

    @classmethod
    def read(cls, text: str | Shard) -> Shard:
        """The shard of a text such as `2/8`. UsageError for any other text."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text))
        index, count = map(int, match.groups()) if match else (0, 0)
        if not count:
            raise UsageError(f"--shard {text!s:.80} is no shard; expected i/n, such as 2/8 for the second of eight")
        if not 1 <= index <= count:
            raise UsageError(f"--shard {text} is out of range; valid shards are 1/{count} to {count}/{count}")
        return cls(index, count)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return f"shard-{self.index}-of-{self.count}"

    def takes(self, *unit: str) -> bool:
        """Whether a unit of this name is in this part."""
        digest = hashlib.sha256("\0".join(unit).encode(errors="surrogateescape")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.index - 1


class Machine(Row, frozen=True):
    """A machine. `name` is also its folder in results/; names of different machines differ."""

    name: Name
    processor: str
    cores: Count
    threads: Count
    memory_bytes: Count
    system: str
    accelerators: tuple[str, ...] = ()
    caches: Mapping[str, Count] = field(default_factory=dict)
    """Bytes of one instance by level: `L1d`, `L1i`, `L2`, `L3`, as far as the system reports them."""
    accelerator_facts: Mapping[str, Any] = field(default_factory=dict)
    """`driver` and its version of CUDA (`cuda`), and in the order of `accelerators` `memory_bytes` and the current
    `power_limit` in W. A value that is null has its reason in `<name>_absent`; empty without accelerators."""


class Run(Row, frozen=True):
    """One run of the suite. Each row in results/ belongs to a run.

    `sources` maps each implementation to the hash of its file, `suite` is the hash of the suite's own sources,
    `request` is the request in words: a run resumes only the same request, with the same sources, versions and machine.
    """

    id: Name
    started: Name
    machine: Machine
    versions: Mapping[str, str]
    commit: str
    sources: Mapping[str, str]
    suite: str
    finished: str = ""
    request: str = ""
    facts: Facts = field(default_factory=Facts)
    shard: str = ""
    """`2/8` where this is the second of eight parts of a request."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each file of rows, by its name, once the run is finished."""
    format: Count = 0
    """The format of the files; 0 in memory."""
    shards: Mapping[str, str] = field(default_factory=dict)
    """The shards of a merged run, each with the id of its run."""

    @property
    def covers(self) -> Mapping[str, str]:
        """The shards that it contains, each with the id of its run; empty without shards."""
        return self.shards or ({self.shard: self.id} if self.shard else {})

    @property
    def divided(self) -> int:
        """The number of shards of the request; 0 without shards."""
        return max((Shard.read(part).count for part in self.covers), default=0)


QUANTITY_KINDS = {
    "digits": "printed digits",
    "shapes": "printed shapes or statements",
    "derived": "values derived from a definition",
}
"""How a document gives the values of an example, with a description. Derived values are defined there, not printed."""


@dataclass(frozen=True, slots=True)
class Source:
    """The place of an example in a source document, and one of its quantities."""

    example: str
    """The example's id, such as `doc-003/3.3.1-context-query-2`."""
    document: str
    section: str
    quantity: str
    given: str = ""
    """How the document gives it: a key of QUANTITY_KINDS."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers of a document."""

    source: Source
    values: Any
    """Nested lists, or an array."""
    decimals: int | None = None
    """The number of printed decimals; None for numbers derived from the definition in high precision."""
    significant: int | None = None
    """The number of printed significant digits, where all numbers have as many."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A failing call, as lines of Python that print the actual and the expected output."""

    case: str
    dtype: str
    lines: tuple[str, ...]
    gave_up: bool = False
    """Whether the search ran out of time, so that a smaller input may exist."""

    @property
    def pasted(self) -> tuple[str, ...]:
        """The lines, after an empty line and a comment with the case."""
        return "", self._heading, *self.lines

    @property
    def _heading(self) -> str:
        smallest = "a smaller input (there was no time for the smallest)" if self.gave_up else "the smallest input"
        return f"# {smallest} that fails as {self.case} does in {self.dtype}:"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one implementation. Where nothing fails, most fields are empty."""

    conversions: tuple[str, ...] = ()
    """How a class, a module or a pair (output, weights) was converted to be tested."""
    where: tuple[str, ...] = ()
    """`failed only where is_causal and a width above 64 meet, backward`: of failures that no mutant explains."""
    reproductions: tuple[Reproduction, ...] = ()
    sandbox: str = ""
    """What the sandbox protected and what it did not; empty for trusted code."""
    operators: Operators | None = None
    """The operators that ran in some of its tests; None for trusted code."""
    uncompared: str = ""
    """How many failures were not compared with every mutant, and how one is; empty where all were."""
    hint: str = ""
    """The signature or device that it needs, or how it is called, where it passes no plain test."""
    untested: tuple[str, ...] = ()
    """Its parameters that no test gives."""

    @property
    def _untested(self) -> str:
        plural = "s" * (len(self.untested) > 1)
        return f"not tested: the parameter{plural} {', '.join(self.untested)}" if self.untested else ""

    @property
    def lines(self) -> list[str]:
        """The explanation for people: sentences, then reproductions to paste."""
        return [
            *self.conversions,
            *filter(None, [self.hint, self.sandbox, self.operators.line if self.operators else ""]),
            *self.where,
            *filter(None, [self.uncompared, self._untested]),
            *(line for reproduction in self.reproductions for line in reproduction.pasted),
        ]
