"""A convention of models: who rounds numbers to a few bits promises no limit of its errors, and has them measured."""

from __future__ import annotations

from attnsuite.cases import Case, Conventions

ACCURACY = {"accuracy": ("bounded", "measured")}
"""What may be declared; the first is the contract's own."""
UNPROMISED = "no limit of its errors is promised: accuracy is measured"


def unpromised(case: Case, needed: frozenset[str], conventions: Conventions) -> str:
    """Why nothing can be said of a question's numbers under this convention, or empty. What must raise, must."""
    judged = case.family == "bad_input" or conventions.get("accuracy") != "measured"
    return "" if judged else UNPROMISED
