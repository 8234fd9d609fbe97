"""A baseline of the suite's own that is timed beside others and gets no row, where no such baseline takes part.

Proofs of times need one: it does not lie, so it tells a lie from a machine that has become busy meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from attnsuite import registry
from attnsuite.benchmark.implementation import Implementation, declaration_of, function_here
from attnsuite.benchmark.participant import Participant
from attnsuite.contracts import contract as contract_named
from attnsuite.registry import Loaded


def yardstick(
    contract: str, baseline: str, timed: Sequence[Implementation], stack: ExitStack, **settings: Any
) -> Participant | None:
    """The contract's own baseline, ready to be timed, which is closed with the stack.

    It is timed in this process where all others are: on the cores that this process has, which may be busier or less
    busy than others. None where the one called `baseline`, which all that are `timed` are compared with, is among them
    and the suite's own, and where the contract's own baseline cannot be started. `settings` are those of a
    `Participant`.
    """
    name = f"{contract}/{baseline}"
    if any(each.full_name == name and each.shipped for each in map(declaration_of, timed)):
        return None
    own = f"{contract}/{contract_named(contract).baseline}"
    found = next((each for each in registry.discover() if each.full_name == own), None)
    if found is None or registry.absent(found) is not None:
        return None
    named = replace(found, name=f"{found.name} (not shown)")
    if all(function_here(each) is not None for each in timed):
        loaded = registry.load(found)
        return Participant(named, function=loaded.function, **settings) if isinstance(loaded, Loaded) else None
    started = Participant(named, **settings)
    stack.callback(started.close)
    return None if started.ready() else started
