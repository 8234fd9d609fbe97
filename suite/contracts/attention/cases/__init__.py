"""The cases of the contract `attention`: a module per kind of question, a family per name before the slash."""

from __future__ import annotations

from suite import asking
from suite.contracts.attention.cases import decisions, gradients, sizes
from suite.contracts.attention.cases.bad_input import bad_input
from suite.contracts.attention.cases.behaviour import behaviour
from suite.contracts.attention.cases.documents import printed_examples
from suite.contracts.attention.cases.dropout import dropout
from suite.contracts.attention.cases.layout import layout
from suite.contracts.attention.cases.metamorphic import metamorphic
from suite.contracts.attention.cases.numerics import numerics


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [
        *decisions.plain(),
        *printed_examples(),
        *decisions.scale(),
        *decisions.bool_mask(),
        *decisions.float_mask(),
        *decisions.causal(),
        *decisions.empty_row(),
        *decisions.no_keys(),
        *decisions.heads(),
        *decisions.ranks(),
        *sizes.keys(),
        *sizes.queries(),
        *sizes.both(),
        *sizes.widths(),
        *sizes.items(),
        *numerics(),
        *layout(),
        *gradients.gradients(),
        *gradients.gradient_sizes(),
        *gradients.mask_gradient(),
        *gradients.empty_row_gradients(),
        *dropout(),
        *metamorphic(),
        *behaviour(),
        *bad_input(),
    ]
