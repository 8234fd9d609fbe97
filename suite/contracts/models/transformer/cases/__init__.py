"""The cases of the contract `transformer`: a module per kind of question, a family per name before the slash."""

from __future__ import annotations

from suite import asking
from suite.contracts.models.transformer.cases import decisions
from suite.contracts.models.transformer.cases.bad_input import bad_input
from suite.contracts.models.transformer.cases.documents import printed
from suite.contracts.models.transformer.cases.draws import KIND

__all__ = ["KIND", "cases"]


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [
        *decisions.plain(),
        *printed(),
        *decisions.encoder(),
        *decisions.padding(),
        *decisions.cached(),
        *decisions.sizes(),
        *decisions.plug(),
        *bad_input(),
    ]
