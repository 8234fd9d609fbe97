"""One run of the suite, and the machine that it ran on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from attnsuite.model.facts import Facts
from attnsuite.model.shard import Shard
from attnsuite.model.typed import Count, Name, Row


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

    `sources` maps each implementation to the hash of its file, `suite` is the hash of the suite's own sources, `asked`
    is the request in words: a run resumes only what was asked alike, with the same sources, versions and machine.
    """

    id: Name
    started: Name
    machine: Machine
    versions: Mapping[str, str]
    commit: str
    sources: Mapping[str, str]
    suite: str
    finished: str = ""
    asked: str = ""
    facts: Facts = field(default_factory=Facts)
    shard: str = ""
    """`2/8` where this is the second of eight parts of what was asked."""
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
        """Into how many shards what was asked was divided; 0 where it was not."""
        return max((Shard.read(part).count for part in self.covers), default=0)
