"""The records that rooms hand to each other: frozen dataclasses, without torch and without the name of a contract."""

from __future__ import annotations

from attnsuite.records.audit import COMBINED, EXEMPT, Audit, Combinations, Meetings, Redrawn
from attnsuite.records.cheats import MUST, Cheat, CheatsAudit, Trial
from attnsuite.records.claim import Claimed, Evidence, Holds
from attnsuite.records.escaping import command_line, escaped
from attnsuite.records.explanation import Borrowed, BorrowedFinding, Explanation, Reproduction
from attnsuite.records.facts import ContractFacts, Example, Facts, WorkloadFacts
from attnsuite.records.history import (
    Answers,
    Change,
    Changed,
    Conformance,
    History,
    KeptRun,
    Point,
    Series,
    StatusChange,
)
from attnsuite.records.learned import RIGHT_GRADIENT, WRONG_GRADIENTS, Learned
from attnsuite.records.measurement import Measurement
from attnsuite.records.operators import Operators
from attnsuite.records.outcome import BAD_INPUT, INPUT_VALIDATION, Outcome
from attnsuite.records.refusal import Refusal
from attnsuite.records.run import Machine, Run
from attnsuite.records.shard import Shard
from attnsuite.records.snapshot import LETTERS, NOT_ASKED, Answered, Snapshot, Timed
from attnsuite.records.source import GIVEN, Figures, Source
from attnsuite.records.status import BENCHMARK_FAILURES, FAILURES, MEASURED_STATUSES, SILENT, STATUSES, Reason, Status
from attnsuite.records.words import (
    CACHES,
    DIRECTIONS,
    DTYPES,
    EVERY_CASE,
    PASSES,
    PROFILES,
    RESULTS,
    SHAPE,
    STEP,
    UsageError,
)

__all__ = [
    "BAD_INPUT",
    "BENCHMARK_FAILURES",
    "CACHES",
    "COMBINED",
    "DIRECTIONS",
    "DTYPES",
    "EVERY_CASE",
    "EXEMPT",
    "FAILURES",
    "GIVEN",
    "INPUT_VALIDATION",
    "LETTERS",
    "MEASURED_STATUSES",
    "MUST",
    "NOT_ASKED",
    "PASSES",
    "PROFILES",
    "RESULTS",
    "RIGHT_GRADIENT",
    "SHAPE",
    "SILENT",
    "STATUSES",
    "STEP",
    "WRONG_GRADIENTS",
    "Answered",
    "Answers",
    "Audit",
    "Borrowed",
    "BorrowedFinding",
    "Change",
    "Changed",
    "Cheat",
    "CheatsAudit",
    "Claimed",
    "Combinations",
    "Conformance",
    "ContractFacts",
    "Evidence",
    "Example",
    "Explanation",
    "Facts",
    "Figures",
    "History",
    "Holds",
    "KeptRun",
    "Learned",
    "Machine",
    "Measurement",
    "Meetings",
    "Operators",
    "Outcome",
    "Point",
    "Reason",
    "Redrawn",
    "Refusal",
    "Reproduction",
    "Run",
    "Series",
    "Shard",
    "Snapshot",
    "Source",
    "Status",
    "StatusChange",
    "Timed",
    "Trial",
    "UsageError",
    "WorkloadFacts",
    "command_line",
    "escaped",
]
