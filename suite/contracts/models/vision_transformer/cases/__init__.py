"""The cases of the contract `vision_transformer`: a module per kind of question, a family per name before the slash."""

from __future__ import annotations

from attnsuite.cases import Case
from attnsuite.contracts.models.vision_transformer.cases import decisions
from attnsuite.contracts.models.vision_transformer.cases.bad_input import bad_input
from attnsuite.contracts.models.vision_transformer.cases.documents import printed


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        *decisions.plain(),
        *printed(),
        *decisions.mean(),
        *decisions.states(),
        *decisions.sizes(),
        *decisions.weights(),
        *decisions.layout(),
        *decisions.numerics(),
        *decisions.plug(),
        *bad_input(),
    ]
