"""Which names a pattern means: of cases, and of workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import MappingProxyType

NONE: Mapping[str, str] = MappingProxyType({})


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern: the name, a shell glob, or the start of the name up to a slash (`dropout`)."""
    return fnmatchcase(name, pattern) or name.startswith(pattern.rstrip("/") + "/")


def nothing_matches(
    pattern: str, names: Iterable[str], families: Sequence[str], contract: str, also_called: Mapping[str, str] = NONE
) -> str:
    """The message that no case of a contract has such a name, with what may have been meant and what exists.

    `also_called` has the families that words of the field mean.
    """
    word = pattern.strip("*/").lower().replace("-", "_")
    close = [also_called[word]] if word in also_called else get_close_matches(pattern, [*families, *names], n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"no case of {contract} matches {pattern!r}; {hint}families are: {', '.join(families)}"
