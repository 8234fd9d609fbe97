"""Mistakes in what is accepted: bad input is answered instead of refused."""

from __future__ import annotations

from suite.asking.mistakes import Wrong, given, mistakes, rows
from suite.contracts.attention.computation.asked import Asked
from suite.contracts.attention.computation.dense import Dense
from suite.contracts.attention.deviations.sizes import with_first_keys


def with_one_width(asked: Asked) -> Asked:
    width = min(asked.query.shape[-1], asked.key.shape[-1])
    return asked.changed(lambda tensor: tensor[..., :width], "query", "key")


def with_one_length(asked: Asked) -> Asked:
    lengths = asked.keys, asked.value.shape[-2]
    return asked if lengths[0] == lengths[1] else with_first_keys(asked, min(lengths))


MISTAKES = mistakes(
    Dense,
    receive=rows(
        accepts_mismatched_widths=Wrong(
            "a query and key of different widths are accepted: the wider is cut", given(asked=with_one_width)
        ),
        accepts_mismatched_lengths=Wrong(
            "keys and values of different lengths are accepted: the longer are cut",
            given(asked=with_one_length),
            "pytorch, scaled_dot_product_attention on a CPU",
        ),
    ),
)
