"""A workload that a user types: `b=4,h=32,g=8,l=2048,e=128,causal`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attnsuite.contracts.attention.feature import features
from attnsuite.contracts.attention.shapes import SIZES, WIDTH, read, typed
from attnsuite.contracts.attention.workloads.dropped import Dropped
from attnsuite.contracts.attention.workloads.workload import Workload
from attnsuite.model import PASSES, SHAPE


def shaped(text: str) -> Workload:
    """The workload that a text names. UsageError, one line, for what it cannot be, with what exists.

    Its name is the text made plain: sizes first, nothing that is usual anyway. So whoever knows the name can make it.
    """
    sizes, values = read(text)
    batch, heads, queries = sizes.get("b", 1), sizes.get("h", 1), sizes["l"]
    key_heads, keys, width = sizes.get("g", heads), sizes.get("s", queries), sizes.get("e", WIDTH)
    given = {each.key: values[each.name] for each in features() if each.name in values}
    kind = Dropped if given.get("dropout_p") else Workload
    return kind(
        SHAPE + _plain(sizes, values),
        "a shape of one's own",
        queries,
        keys,
        width,
        heads,
        batch=batch,
        value_width=sizes.get("v", width),
        profiles=dict.fromkeys(("quick", "standard", "full"), PASSES[:1]),
        **(given if key_heads == heads else {"key_heads": key_heads, **given}),
    )


def _plain(sizes: Mapping[str, int], values: Mapping[str, Any]) -> str:
    """The text with nothing in it that is usual anyway, always in the same order."""
    every = {"e": WIDTH, **sizes}
    usual = {"b": 1, "h": 1, "g": sizes.get("h", 1), "s": sizes["l"], "v": every["e"]}

    def parts() -> Iterator[str]:
        for name in SIZES:
            if name in every and every[name] != usual.get(name):
                yield f"{name}={every[name]}"
        for name, value in values.items():
            of = typed()[name]
            yield f"{name}={of.written(value)}" if of.due else name

    return ",".join(parts())
