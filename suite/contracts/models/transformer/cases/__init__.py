"""The cases of the contract `transformer`: a module per kind of question, a family per name before the slash."""

from __future__ import annotations

from attnsuite.cases import Case
from attnsuite.contracts.models.transformer.cases import decisions
from attnsuite.contracts.models.transformer.cases.bad_input import bad_input
from attnsuite.contracts.models.transformer.cases.documents import printed
from attnsuite.contracts.models.transformer.cases.plug import plug
from attnsuite.contracts.models.transformer.cases.weights import weights


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        *decisions.plain(),
        *printed(),
        *decisions.encoder(),
        *decisions.padding(),
        *decisions.cached(),
        *decisions.sizes(),
        *weights(),
        *decisions.greedy(),
        *plug(),
        *bad_input(),
    ]
