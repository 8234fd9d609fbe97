"""How any contract asks: calls, cases, workloads, and what a contract consists of."""

from __future__ import annotations

from attnsuite.cases.call import ALL, Call, Calls, Conventions, Replies, Reply, Unanswered
from attnsuite.cases.case import Around, Case, Changed, questions
from attnsuite.cases.contract import Contract, Deviation, Stranger
from attnsuite.cases.declared import EVERYWHERE, configured, declare, rooms
from attnsuite.cases.workload import Workload

__all__ = [
    "ALL",
    "EVERYWHERE",
    "Around",
    "Call",
    "Calls",
    "Case",
    "Changed",
    "Contract",
    "Conventions",
    "Deviation",
    "Replies",
    "Reply",
    "Stranger",
    "Unanswered",
    "Workload",
    "configured",
    "declare",
    "questions",
    "rooms",
]
