"""How a contract makes a failing call smaller, and writes it down as a few lines of Python to paste."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from attnsuite.cases.call import Call, Calls, Conventions, Reply
from attnsuite.cases.case import Case
from attnsuite.cases.due import Due

Simpler = Callable[[Call], Iterator[Call]]
"""Calls that are simpler than one in some respect, those that are most so first."""


@dataclass(frozen=True)
class Reproducing:
    """What a contract knows of its calls, so that the smallest failing one can be found and written."""

    posed: Callable[[Calls], Case]
    """The case that asks these very calls, each judged by itself."""
    simpler: Sequence[Simpler]
    """What may be simpler about a call, in the order in which it is tried."""
    written: Callable[[Call, Reply, Due | None, Conventions], Sequence[str]]
    """Lines that make the call of a function named as the contract is, compute what is due in plain torch, and print
    both; none where that cannot be said in plain torch. Without a `Due`, an error was due."""
    said: frozenset[str]
    """The conventions that these lines follow where they are declared."""
    blank: Callable[[Call], Call]
    """The same call with plain numbers, for one that must raise whatever the numbers are."""
