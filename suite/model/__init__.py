"""The records that rooms hand to each other: frozen dataclasses, without torch and without the name of a contract."""

from __future__ import annotations

from attnsuite.model.audit import COMBINED, EXEMPT, Audit, Combinations, Meetings, Redrawn
from attnsuite.model.cheats import MUST, Cheat, CheatsAudit, Trial
from attnsuite.model.claim import Claimed, Evidence, Holds
from attnsuite.model.escaping import command_line, escaped
from attnsuite.model.explanation import Borrowed, BorrowedFinding, Explanation, Reproduction
from attnsuite.model.facts import ContractFacts, Example, Facts, FindingFacts, WorkloadFacts
from attnsuite.model.learned import RIGHT_GRADIENT, WRONG_GRADIENTS, Learned
from attnsuite.model.measurement import Measurement
from attnsuite.model.operators import Operators
from attnsuite.model.outcome import BAD_INPUT, INPUT_VALIDATION, Outcome
from attnsuite.model.refusal import Refusal
from attnsuite.model.repeated import Repeated
from attnsuite.model.run import Machine, Run
from attnsuite.model.shard import Shard
from attnsuite.model.source import GIVEN, Figures, Source
from attnsuite.model.status import BENCHMARK_FAILURES, FAILURES, MEASURED_STATUSES, SILENT, STATUSES, Reason, Status
from attnsuite.model.words import (
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
    "MEASURED_STATUSES",
    "MUST",
    "PASSES",
    "PROFILES",
    "RESULTS",
    "RIGHT_GRADIENT",
    "SHAPE",
    "SILENT",
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
    "FindingFacts",
    "Holds",
    "Learned",
    "Machine",
    "Measurement",
    "Meetings",
    "Operators",
    "Outcome",
    "Reason",
    "Redrawn",
    "Refusal",
    "Repeated",
    "Reproduction",
    "Run",
    "Shard",
    "Source",
    "Status",
    "Trial",
    "UsageError",
    "WorkloadFacts",
    "command_line",
    "escaped",
]
