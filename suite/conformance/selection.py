"""The syntax of `--case` and `--workload`: which names a pattern selects."""

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
    pattern: str, names: Iterable[str], families: Sequence[str], contract: str, synonyms: Mapping[str, str] = NONE
) -> str:
    """The message that no case of a contract matches, with the closest name and the families that exist.

    `synonyms` has families by other words for them.
    """
    word = pattern.strip("*/").lower().replace("-", "_")
    close = [synonyms[word]] if word in synonyms else get_close_matches(pattern, [*families, *names], n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"no case of {contract} matches {pattern!r}; {hint}families are: {', '.join(families)}"
