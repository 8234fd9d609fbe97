"""The cases of the contract `transformer`: a module per kind of question, a family per name before the slash."""

from __future__ import annotations

from suite.contracts import base
from suite.contracts.transformer.cases import decisions
from suite.contracts.transformer.cases.bad_input import bad_input
from suite.contracts.transformer.cases.documents import printed
from suite.contracts.transformer.cases.draws import KIND

__all__ = ["KIND", "cases"]


def cases() -> list[base.Case]:
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
