"""The cases of the contract `attention`: those of no single feature, and the features' own.

The family of a case is the part of its name before the slash. A feature adds cases to several families.
"""

from __future__ import annotations

from attnsuite.cases import Case
from attnsuite.cases.contract import QUICK
from attnsuite.contracts.attention.cases import combined, dropout, masks, one_call, paths, several_calls
from attnsuite.contracts.attention.cases.bad_input import bad_input
from attnsuite.contracts.attention.cases.documents import printed_examples
from attnsuite.contracts.attention.cases.several_calls import metamorphic
from attnsuite.contracts.attention.feature import features


def cases() -> list[Case]:
    """All cases, family by family, the plainest first."""
    first = [*one_call.plain(), *printed_examples()]
    of_features = [*masks.cases(), *(case for feature in features() for case in feature.cases()), *dropout.cases()]
    general = [*one_call.cases(), *metamorphic(), *several_calls.cases(), *one_call.lengths(), *paths.cases(),
        *bad_input(), *combined.array().cases(QUICK, 0)]  # fmt: skip
    families = [case.family for case in (*first, *general)]
    own = [case.family for case in of_features if case.family not in families]
    order = dict.fromkeys([*(case.family for case in first), *own, *families])
    places = {family: place for place, family in enumerate(order)}
    return sorted([*first, *of_features, *general], key=lambda case: places[case.family])
