"""One run of the suite: its machine, its request, and what it notes for pages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import field

from attnsuite.model.rows import Amount, Count, Name, Operators, Row, Status
from attnsuite.model.words import UsageError


class Example(Row, frozen=True):
    """One numeric example of a source document: what it prints, what the oracle computes, and who reproduces it.

    `statuses` maps each implementation that was tested to one status. `printed` is empty where the document shows a
    picture or states a fact; `note` says what is wrong with the document itself, where something is.
    """

    id: Name
    document: Name
    section: str
    quantity: str
    printed: str = ""
    computed: str = ""
    statuses: Mapping[str, Status] = field(default_factory=dict)
    note: str = ""
    given: str = ""
    """What of it the document itself gives: a word of GIVEN; empty in runs that did not note it."""


class ContractFacts(Row, frozen=True):
    """What tables say of a contract that was tested."""

    features: Mapping[str, str] = field(default_factory=dict)
    """What a case may need, and each in words."""
    cases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Each case and the features that it needs."""
    baseline: str = ""
    """The implementation that others are compared with; empty where nothing is timed."""
    is_model: bool = False
    """Whether an implementation is a factory of models."""
    why: Mapping[str, str] = field(default_factory=dict)
    """Why each case exists; empty in runs that did not note it."""


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
    """The link of the report to the library."""


class WorkloadFacts(Row, frozen=True):
    """What tables say of a workload."""

    group: str
    shape: str
    """Its sizes in words."""
    why: str
    length: Count
    """The size that charts have on their axis."""


class Facts(Row, frozen=True):
    """What a run noted: about contracts and implementations as they were then, and about the run itself."""

    contracts: Mapping[str, ContractFacts] = field(default_factory=dict)
    lacks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What each implementation declares to lack, and why."""
    conventions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each implementation declares to mean: a word, or a word for each kind of mask."""
    findings: Mapping[str, FindingFacts] = field(default_factory=dict)
    """Each known bug, by its id."""
    examples: tuple[Example, ...] = ()
    """The documents' examples among the cases, without statuses: those come from the outcomes."""
    again: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The words that ask an implementation again, where its registered name does not."""
    workloads: Mapping[str, Mapping[str, WorkloadFacts]] = field(default_factory=dict)
    """Of each contract, the workloads that there are."""
    baselines: Mapping[str, str] = field(default_factory=dict)
    """Of each contract that was compared with another implementation than its own baseline, that implementation."""
    profile: str = ""
    """The profile that was timed, or empty."""
    sandbox: Mapping[str, str] = field(default_factory=dict)
    """The sandbox of each submission, in words."""
    operators: Mapping[str, Operators] = field(default_factory=dict)
    """What each implementation that does not ship ran, in the questions that were looked at."""
    whole: tuple[str, ...] = ()
    """The implementations that all shards of a check together ask every case in every dtype."""
    claims: tuple[str, ...] = ()
    """The names of all claims that there are, where claims were measured."""
    sampled: Mapping[str, Count] = field(default_factory=dict)
    """The implementations that were tested on a sample, each with the number of tests that it has in all."""
    seconds: Mapping[str, Amount] = field(default_factory=dict)
    """Where a benchmark's time went, in seconds by activity."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The part `index` of `count`, counted from 1.

    A hash of its name tells in which part a unit falls: on every machine the same, whatever else is asked.
    """

    index: int
    count: int

    @classmethod
    def read(cls, text: str | Shard) -> Shard:
        """The shard in words such as `2/8`. UsageError for what is none."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text))
        if found is None:
            raise UsageError(f"--shard: i/n is due, such as 2/8 for the second of eight, not {text!s:.80}")
        index, count = map(int, found.groups())
        if not count:
            raise UsageError(f"--shard: {text} divides into no part; i/n is due, such as 2/8 for the second of eight")
        if not 1 <= index <= count:
            raise UsageError(f"--shard: {text} is none; shards are counted from 1/{count} to {count}/{count}")
        return cls(index, count)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def folder(self) -> str:
        """What its folder is called, beside those of the others."""
        return f"shard-{self.index}-of-{self.count}"

    def takes(self, *unit: str) -> bool:
        """Whether what is called so falls into this part."""
        digest = hashlib.sha256("\0".join(unit).encode(errors="surrogateescape")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.index - 1


class Machine(Row, frozen=True):
    """What machine this is. `name` is also its folder in results/, where the second of two machines that differ and
    would be called alike has a name that says how.
    """

    name: Name
    processor: str
    cores: Count
    threads: Count
    memory_bytes: Count
    system: str
    accelerators: tuple[str, ...] = ()
    caches: Mapping[str, Count] = field(default_factory=dict)
    """Bytes of one instance by level: `L1d`, `L1i`, `L2`, `L3`. What the system does not tell is left out."""
    accelerator_facts: Mapping[str, Any] = field(default_factory=dict)
    """`driver` and the version of CUDA that it offers (`cuda`), and in the order of `accelerators` `memory_bytes` and
    the set `power_limit` in W. A value that is null has its reason in `<name>_absent`; empty without accelerators."""


class Run(Row, frozen=True):
    """One run of the suite: where, when, of what. Each row in results/ is of one.

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
    """Of a run that was merged, the shards that it is made of, each with the id of the run that answered it."""

    @property
    def covers(self) -> Mapping[str, str]:
        """The shards that it answers, each with the id of the run that did; empty where nothing was divided."""
        return self.shards or ({self.shard: self.id} if self.shard else {})

    @property
    def divided(self) -> int:
        """Into how many shards the request was divided; 0 where it was not."""
        return max((Shard.read(part).count for part in self.covers), default=0)
