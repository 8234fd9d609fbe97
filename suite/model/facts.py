"""What a run knows beside its rows, kept with it so that a report needs neither torch nor implementations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from attnsuite.model.operators import Operators
from attnsuite.model.status import Status
from attnsuite.model.typed import Amount, Count, Name, Row


class Example(Row, frozen=True):
    """One numeric example of a source document: what it prints, what the oracle computes, and who reproduces it.

    `statuses` maps each implementation that was asked to one status. `printed` is empty where the document shows a
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
    """What tables say of a contract that was asked."""

    features: Mapping[str, str] = field(default_factory=dict)
    """What a case may need, and each in words."""
    cases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Each case and the features that it needs."""
    baseline: str = ""
    """The implementation that others are compared with; empty where nothing is timed."""
    is_model: bool = False
    """Whether an implementation is a factory of models."""
    why: Mapping[str, str] = field(default_factory=dict)
    """Why each case is asked; empty in runs that did not note it."""


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
    gaps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
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
    walls: Mapping[str, str] = field(default_factory=dict)
    """What keeps each implementation that is not trusted from what is not its own, in words."""
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
