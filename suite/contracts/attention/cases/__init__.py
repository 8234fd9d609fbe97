"""The cases of the contract `attention`: those of no single feature, a module per kind of question, and the features' own.

A family is what stands before the slash of a name; a feature adds to several.
"""

from __future__ import annotations

from attnsuite.cases import Case
from attnsuite.cases.contract import QUICK
from attnsuite.contracts.attention.cases import combined, core, dropout, gradients, masks, sizes
from attnsuite.contracts.attention.cases.bad_input import bad_input
from attnsuite.contracts.attention.cases.behaviour import behaviour
from attnsuite.contracts.attention.cases.documents import printed_examples
from attnsuite.contracts.attention.cases.half import half
from attnsuite.contracts.attention.cases.layout import layout
from attnsuite.contracts.attention.cases.lengths import lengths
from attnsuite.contracts.attention.cases.metamorphic import metamorphic
from attnsuite.contracts.attention.cases.numerics import numerics
from attnsuite.contracts.attention.cases.order import order
from attnsuite.contracts.attention.cases.roles import roles
from attnsuite.contracts.attention.cases.state import state
from attnsuite.contracts.attention.cases.threads import threads
from attnsuite.contracts.attention.feature import features


def cases() -> list[Case]:
    """All cases, family by family, the plainest first."""
    first = [*core.plain(), *printed_examples()]
    general = [
        *core.no_keys(),
        *core.ranks(),
        *sizes.keys(),
        *sizes.queries(),
        *sizes.both(),
        *sizes.widths(),
        *sizes.items(),
        *numerics(),
        *half(),
        *layout(),
        *gradients.gradients(),
        *gradients.gradient_sizes(),
        *gradients.gradient_numerics(),
        *metamorphic(),
        *behaviour(),
        *order(),
        *threads(),
        *state(),
        *roles(),
        *lengths(),
        *bad_input(),
        *combined.array().cases(QUICK, 0),
    ]
    of_features = [*masks.cases(), *(case for each in features() for case in each.cases()), *dropout.cases()]
    families = [case.family for case in (*first, *general)]
    own = [case.family for case in of_features if case.family not in families]
    places = {family: place for place, family in enumerate(dict.fromkeys([*families[: len(first)], *own, *families]))}
    return sorted([*first, *of_features, *general], key=lambda case: places[case.family])
