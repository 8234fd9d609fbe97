"""How any contract asks: calls, cases, workloads, and what a contract consists of."""

from __future__ import annotations

from suite.asking.call import ALL, NO_MODEL, Call, Conventions, Reply, Unanswered
from suite.asking.case import Case, questions
from suite.asking.contract import EVERYWHERE, Contract, Deviation, Stranger, needs_by, rooms
from suite.asking.workload import Workload

__all__ = [
    "ALL",
    "EVERYWHERE",
    "NO_MODEL",
    "Call",
    "Case",
    "Contract",
    "Conventions",
    "Deviation",
    "Reply",
    "Stranger",
    "Unanswered",
    "Workload",
    "needs_by",
    "questions",
    "rooms",
]
