"""The records that rooms hand to each other: frozen dataclasses, without torch and without the name of a contract."""

from __future__ import annotations

from suite.records.audit import COMBINED, EXEMPT, Audit, Combinations, Meetings, Redrawn
from suite.records.cheats import MUST, Cheat, CheatsAudit, Trial
from suite.records.claim import Claimed, Evidence, Holds
from suite.records.escaping import escaped
from suite.records.explanation import Borrowed, BorrowedFinding, Explanation, Reproduction
from suite.records.facts import ContractFacts, Example, Facts, WorkloadFacts
from suite.records.learned import RIGHT_GRADIENT, WRONG_GRADIENTS, Learned
from suite.records.measurement import Measurement
from suite.records.outcome import Outcome
from suite.records.refusal import Refusal
from suite.records.run import Machine, Run
from suite.records.shard import Shard
from suite.records.source import GIVEN, Figures, Source
from suite.records.status import BENCHMARK_FAILURES, FAILURES, MEASURED_STATUSES, STATUSES, Reason, Status
from suite.records.words import (
    CACHES,
    DIRECTIONS,
    DTYPES,
    EVERY_CASE,
    PASSES,
    PROFILES,
    STEP,
    UsageError,
)

__all__ = [
    "BENCHMARK_FAILURES",
    "CACHES",
    "COMBINED",
    "DIRECTIONS",
    "DTYPES",
    "EVERY_CASE",
    "EXEMPT",
    "FAILURES",
    "GIVEN",
    "MEASURED_STATUSES",
    "MUST",
    "PASSES",
    "PROFILES",
    "RIGHT_GRADIENT",
    "STATUSES",
    "STEP",
    "WRONG_GRADIENTS",
    "Audit",
    "Borrowed",
    "BorrowedFinding",
    "Cheat",
    "CheatsAudit",
    "Claimed",
    "Combinations",
    "ContractFacts",
    "Evidence",
    "Example",
    "Explanation",
    "Facts",
    "Figures",
    "Holds",
    "Learned",
    "Machine",
    "Measurement",
    "Meetings",
    "Outcome",
    "Reason",
    "Redrawn",
    "Refusal",
    "Reproduction",
    "Run",
    "Shard",
    "Source",
    "Status",
    "Trial",
    "UsageError",
    "WorkloadFacts",
    "escaped",
]
