"""Contracts as data: calls, cases, mutants, correct variants and workloads."""

from attnsuite.cases.call import ALL_CORES, Call, Calls, Conventions, NoReply, Replies, Reply
from attnsuite.cases.case import Case, CaseWrapper, ChangedCase, list_tests
from attnsuite.cases.contract import COMMON, Contract, Mutant, Variant, configured, declare, lists_in
from attnsuite.cases.workload import Workload

__all__ = [
    "ALL_CORES",
    "COMMON",
    "Call",
    "Calls",
    "Case",
    "CaseWrapper",
    "ChangedCase",
    "Contract",
    "Conventions",
    "Mutant",
    "NoReply",
    "Replies",
    "Reply",
    "Variant",
    "Workload",
    "configured",
    "declare",
    "list_tests",
    "lists_in",
]
