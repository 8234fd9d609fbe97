"""The cases of the contract `multi_head_attention`: a module per kind of question, a family per name before the slash."""

from __future__ import annotations

from attnsuite.cases import Case
from attnsuite.contracts.blocks.multi_head_attention.cases import decisions
from attnsuite.contracts.blocks.multi_head_attention.cases.bad_input import bad_input
from attnsuite.contracts.blocks.multi_head_attention.cases.decisions import of
from attnsuite.contracts.blocks.multi_head_attention.cases.documents import printed_examples
from attnsuite.contracts.blocks.multi_head_attention.cases.draws import asked
from attnsuite.contracts.blocks.multi_head_attention.cases.dropout import dropout, dropped_weights
from attnsuite.contracts.blocks.multi_head_attention.cases.plug import plug
from attnsuite.contracts.blocks.multi_head_attention.contract import BIASES


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        *decisions.plain(),
        *printed_examples(),
        *decisions.heads(),
        *decisions.widths(),
        *decisions.bias(),
        *decisions.output_map(),
        *decisions.masks(),
        *decisions.causal(),
        *dropout(),
        *decisions.weights(),
        *dropped_weights(),
        *plug(),
        *decisions.numerics(),
        *decisions.layouts(),
        *asked.again(
            ("mapped", "biases, a mask and an output map", {"out_width": 5, "biases": BIASES, "mask": of(2, 2, 5, 7)})
        ),
        *bad_input(),
    ]
