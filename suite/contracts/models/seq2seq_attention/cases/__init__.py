"""The cases of the contract `seq2seq_attention`: a module per kind of question, a family per name before the slash."""

from __future__ import annotations

from attnsuite.cases import Case
from attnsuite.contracts.models.seq2seq_attention.cases import decisions
from attnsuite.contracts.models.seq2seq_attention.cases.bad_input import bad_input
from attnsuite.contracts.models.seq2seq_attention.cases.documents import printed


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        *decisions.plain(),
        *printed(),
        *decisions.lengths(),
        *decisions.score(),
        *decisions.cell(),
        *decisions.window(),
        *decisions.layers(),
        *decisions.sizes(),
        *decisions.shown_weights(),
        *decisions.greedy(),
        *decisions.repeated(),
        *decisions.layout(),
        *decisions.numerics(),
        *bad_input(),
    ]
