"""What is unusual about a case of attention, in words: sizes, layouts, how it is asked, and what features say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from attnsuite.cases.case import HOW, Traits
from attnsuite.contracts.attention.feature import features

if TYPE_CHECKING:
    from attnsuite.contracts.attention.cases.case import AttentionCase
    from attnsuite.contracts.attention.cases.draws import Sizes

BEYOND = tuple(2**power for power in range(16, -1, -1))
"""Numbers beyond which kernels take other paths: sizes of vectors, tiles, splits and indices. The largest come first,
because of those that tell as much apart the first is said."""
DIVISORS = (2, 4, 8, 16, 32, 64, 128)
"""What kernels cut sizes into: a remainder takes another path."""
HALF = ("float16", "bfloat16")


def traits(case: AttentionCase, dtype: str) -> Traits:
    """All that is unusual about a case in a dtype, by factor."""
    found: dict[str, Sequence[str]] = {name: tuple(phrases) for name, phrases in _of_sizes(case.sizes).items()}
    for each in features():
        value = case.values.get(each.key)
        found |= {} if value is None else each.traits(value, case.sizes) if each.traits else {each.key: (each.name,)}
    return found | {
        "rank": (f"rank {case.rank}",) if case.rank < 4 else (),
        "draw": () if case.draw == "peaked" else (case.draw.replace("_", " "),),
        "layout": tuple(_layouts(case)),
        "dtype": (dtype, *(("a half type",) if dtype in HALF else ())),
        HOW: tuple(_how(case)),
    }


def _of_sizes(sizes: Sizes) -> dict[str, Iterator[str]]:
    return {
        "keys": _size("keys", sizes.keys),
        "queries": _size("queries", sizes.queries),
        "width": _width("width", sizes.width),
        "value width": _value_width(sizes),
        "matrices": _many("batch items times heads", sizes.batch * sizes.heads),
        "heads": _many("heads", sizes.heads),
        "batch": _many("batch items", sizes.batch),
        "shape": _shape(sizes),
    }


def _many(name: str, count: int) -> Iterator[str]:
    if count == 0:
        yield f"no {name}"
    yield from (f"more than {limit} {name}" for limit in BEYOND if count > limit)


def _size(name: str, count: int) -> Iterator[str]:
    yield from _many(name, count)
    if count == 1:
        yield f"one {name.removesuffix('s') if name == 'keys' else 'query'}"
    yield from (f"a number of {name} that {by} does not divide" for by in DIVISORS if count % by)
    yield from (f"a multiple of {by} {name}" for by in DIVISORS if count and count % by == 0)


def _width(name: str, count: int) -> Iterator[str]:
    yield from (f"a {name} above {limit}" for limit in BEYOND if count > limit)
    yield from (f"a {name} that {by} does not divide" for by in DIVISORS if count % by)
    yield from (f"a {name} that {by} divides" for by in DIVISORS if count and count % by == 0)
    yield f"a {name} of {count}"


def _value_width(sizes: Sizes) -> Iterator[str]:
    if sizes.value_width != sizes.width:
        yield "another value width than the query's"
        yield from _width("value width", sizes.value_width)


def _shape(sizes: Sizes) -> Iterator[str]:
    if sizes.queries != sizes.keys:
        yield "more queries than keys" if sizes.queries > sizes.keys else "more keys than queries"
    else:
        yield "as many queries as keys"


def _layouts(case: AttentionCase) -> Iterator[str]:
    for name, layout in case.layout.items():
        yield f"{layout.replace('_', ' ')} memory of the {name.replace('_', ' ')}"
        yield "inputs that are not contiguous"


def _how(case: AttentionCase) -> Iterator[str]:
    if case.gradient_of:
        yield "backward"
        yield from (f"with a gradient of {name} alone" for name in case.gradient_of if len(case.gradient_of) == 1)
    if not case.grad_mode or case.inference:
        yield "without grad mode"
