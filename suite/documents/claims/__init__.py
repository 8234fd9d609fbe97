"""Claims of the documents that can be measured: one number each, and the range in which the claim holds."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from pkgutil import iter_modules

from attnsuite.documents.claims import statements
from attnsuite.documents.claims.claim import Claim
from attnsuite.model import Evidence, UsageError


def claims(patterns: Sequence[str] = (), evidence: Sequence[str] = ()) -> list[Claim]:
    """The claims of these names, topics or shell patterns (all by default), of these kinds of evidence.

    UsageError where a pattern or a kind names none.
    """
    for kind in evidence:
        if kind not in tuple(Evidence):
            raise UsageError(f"there is no evidence {kind!r:.80}; there is: {', '.join(Evidence)}")
    found = every()
    for pattern in patterns:
        if not any(_named(each, pattern) for each in found):
            raise UsageError(f"no claim is named {pattern!r:.80}; topics are: {', '.join(topics(found))}")
    chosen = [each for each in found if not patterns or any(_named(each, pattern) for pattern in patterns)]
    chosen = [each for each in chosen if not evidence or each.evidence in evidence]
    if not chosen:
        raise UsageError(f"no claim of {', '.join(patterns)} has the evidence {', '.join(evidence)}")
    return chosen


def every() -> list[Claim]:
    """All claims, by topic."""
    modules = (import_module(f"{statements.__name__}.{each.name}") for each in iter_modules(statements.__path__))
    return [claim for module in modules for claim in module.CLAIMS]


def topics(of: Sequence[Claim]) -> list[str]:
    """The topics of some claims, each once."""
    return list(dict.fromkeys(each.topic for each in of))


def _named(claim: Claim, pattern: str) -> bool:
    return pattern in (claim.name, claim.topic) or fnmatchcase(claim.name, pattern)
