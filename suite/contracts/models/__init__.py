"""Contracts whose implementations are factories of models, and the convention on their accuracy."""

from __future__ import annotations

from attnsuite.cases import Case, Conventions

ACCURACY = {"accuracy": ("bounded", "measured")}
"""What an implementation may declare; the first is the contract's own."""
UNBOUNDED = "no limit of its errors is promised: accuracy is measured"


def unbounded(case: Case, needed: frozenset[str], conventions: Conventions) -> str:
    """Why a case cannot be judged under this convention, or empty. Bad input must raise under any convention."""
    judged = case.family == "bad_input" or conventions.get("accuracy") != "measured"
    return "" if judged else UNBOUNDED
