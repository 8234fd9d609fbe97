"""Mistakes in what is accepted: bad input is answered instead of refused."""

from __future__ import annotations

from dataclasses import replace

from suite.contracts.attention.computation.asked import Asked
from suite.contracts.attention.computation.dense import Dense
from suite.contracts.attention.deviations.sizes import with_first_keys


@Dense.instead("receive", "a query and key of different widths are accepted: the wider is cut")
def accepts_mismatched_widths(asked: Asked) -> Asked:
    width = min(asked.query.shape[-1], asked.key.shape[-1])
    return replace(asked, query=asked.query[..., :width], key=asked.key[..., :width])


@Dense.instead(
    "receive",
    "keys and values of different lengths are accepted: the longer are cut",
    source="pytorch, scaled_dot_product_attention on a CPU",
)
def accepts_mismatched_lengths(asked: Asked) -> Asked:
    lengths = asked.keys, asked.value.shape[-2]
    return asked if lengths[0] == lengths[1] else with_first_keys(asked, min(lengths))
