"""A run's facts ↔ JSON, those of runs included that noted them among other notes and without a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from suite.records import ContractFacts, Example, Facts, WorkloadFacts
from suite.store.former import MODELS


def facts_row(facts: Facts) -> dict[str, Any]:
    """The facts as a JSON object, without what is empty."""
    return {name: value for name, value in asdict(facts).items() if value}


def facts(row: Mapping[str, Any]) -> Facts:
    """The facts of a run's row. Raises ValueError where they are of another form."""
    notes = row.get("notes", {})
    try:
        return _facts({**notes, **notes.get("facts", {}), **row.get("facts", {})})
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"the facts are not of the form that this attnsuite writes: {error}") from None


def _facts(noted: Mapping[str, Any]) -> Facts:
    contracts = {name: _contract(name, of) for name, of in noted.get("contracts", {}).items()}
    workloads = {
        contract: {name: WorkloadFacts(**facts) for name, facts in of.items()}
        for contract, of in noted.get("workloads", {}).items()
    }
    return Facts(
        {**{name: _contract(name, {}) for name in workloads}, **contracts},
        noted.get("gaps", {}),
        noted.get("conventions", {}),
        noted.get("findings", {}),
        tuple(Example(**{**example, "statuses": {}}) for example in noted.get("examples", ())),
        {name: tuple(words) for name, words in noted.get("again", {}).items()},
        workloads,
        noted.get("profile", ""),
        noted.get("seconds", {}),
    )


def _contract(name: str, noted: Mapping[str, Any]) -> ContractFacts:
    cases = {case: tuple(needs) for case, needs in noted.get("cases", {}).items()}
    is_model = noted.get("is_model", name in MODELS)
    baseline = noted.get("baseline", "eager" if is_model else "matmul")
    return ContractFacts(noted.get("features", {}), cases, baseline, is_model)
