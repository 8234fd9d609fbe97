"""What the names of a user's own function say: parameters that are called otherwise, and what is no attention."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.registry.callables import Uncallable
from attnsuite.registry.calls import BY_PLACE
from attnsuite.registry.calls import function_parameters as parameters_of
from attnsuite.registry.declaration import Declaration
from attnsuite.registry.signatures import OWN, SIGNATURES_OF, names, signature
from attnsuite.registry.signing import said

INPUTS = ("query", "key", "value")
"""What every signature of attention takes by place."""
ATTENTION = ("attention", "attn", "sdpa")
"""What is in the name of a function whose author calls it an attention."""
NEVER = frozenset({"weight", "bias", "gamma", "beta", "labels"})
"""Parameters that every library gives to layers and losses, and nobody calls a query, a key or a value."""
SHORTEST_PART = 4
"""Letters of a name that is looked for within another, as `mask` in `attn_mask`: shorter ones are in many words."""
ALIKE = 0.75
"""How alike names are that one of them may be misspelt, in difflib's measure: `is_causual` is 0.95 to `is_causal`."""


def assumptions(declaration: Declaration) -> str:
    """What an implementation is taken for, in a line, before its answers; empty where nothing had to be guessed."""
    found = _meant(declaration), said(declaration), declaration.assumption, misnamed(declaration)
    return "; ".join(filter(None, found))


def _meant(declaration: Declaration) -> str:
    """Which function of a file is tested, where none has the contract's name; or empty."""
    if not declaration.guessed:
        return ""
    file = Path(declaration.file).name
    return f"{declaration.full_name} is {file}:{declaration.function}; the file binds no {declaration.contract}"


def misnamed(declaration: Declaration) -> str:
    """What to write where a user's own function has parameters with almost the names of its contract's; or empty."""
    own = declaration.named or not declaration.module
    if not own or declaration.parameters is None or declaration.contract not in contract_names():
        return ""
    if declaration.signature and not signature(declaration.signature).has_own_names:
        return ""  # its parameters are that signature's
    contract = contract_named(declaration.contract)
    due, known = contract.parameter_features, re.findall(r"\w+", contract.signature)
    there = dict.fromkeys((*declaration.parameters, *declaration.untested))
    others = [name for name in there if name not in known]
    alike = {name: near for name in due if name not in declaration.parameters and (near := _alike(name, others))}
    return _to_rename(declaration, alike) if alike else ""


def _to_rename(declaration: Declaration, alike: Mapping[str, str]) -> str:
    """`alike` has the contract's name and the one that is there in its place."""
    there = list(dict.fromkeys(alike.values()))
    rename = " and ".join(f"{near} to {name}" for name, near in alike.items())
    homes = [name for name in names() if name != OWN and signature(name).parameters.issuperset(there)]
    is_attention = declaration.contract == SIGNATURES_OF
    theirs = f", or say --signature {' or '.join(homes)} where it is that library's" if is_attention and homes else ""
    what = f"{declaration.full_name} takes {' and '.join(there)}, which {declaration.contract} does not know"
    return f"{what}: rename {rename} where it means the same{theirs}; cases that need it are unsupported"


def _alike(name: str, others: Sequence[str]) -> str:
    """The first of the others that looks like the name; empty if none does."""
    part = next((other for other in others if len(other) >= SHORTEST_PART and other in name), "")
    return part or next(iter(get_close_matches(name, others, n=1, cutoff=ALIKE)), "")


def taken_as_attention(declaration: Declaration, function: Callable[..., Any]) -> Declaration:
    """A function that is tested as an attention by default, with a line that says so where its names do not.

    Raises `Uncallable` where it takes too few inputs, or where the names are those of another layer's parameters.
    """
    shown = parameters_of(function, through=False)
    if (
        not declaration.contract_assumed
        or declaration.function == SIGNATURES_OF
        or declaration.signature
        or shown is None
    ):
        return declaration
    name, given = declaration.function.rpartition(".")[2], ", ".join(INPUTS)
    others = ", ".join(each for each in contract_names() if each != SIGNATURES_OF)
    places = [each.name for each in shown if each.kind in BY_PLACE]
    first = places[: len(INPUTS)]
    if len(places) < len(INPUTS):
        if declaration.conversion or any(each.kind is each.VAR_POSITIONAL for each in shown):
            return declaration
        takes = f"{name} takes {len(places)} argument{'s'[: len(places) != 1]} by place"
        raise Uncallable(
            f"{takes}, and an attention is given {given}; what computes something else needs --contract: {others}"
        )
    if _is_called_one(declaration) or any(map(_may_be, first, INPUTS)):
        return declaration
    if NEVER.intersection(first):
        takes = f"{name} takes {', '.join(first)}, and an attention is given {given}"
        instead = f"what computes something else needs --contract: {others}; an attention, --contract {SIGNATURES_OF}"
        raise Uncallable(f"{takes}; {instead}")
    was = f"{declaration.full_name} is taken for an attention, whose {given} are its {', '.join(first)}"
    return replace(declaration, assumption=f"{was}; what computes something else needs --contract")


def _is_called_one(declaration: Declaration) -> bool:
    """Whether its function, its file or its module is called an attention."""
    homes = declaration.function, Path(declaration.file).stem, declaration.module.rpartition(".")[2]
    return any(word in home.lower() for home in homes for word in ATTENTION)


def _may_be(name: str, due: str) -> bool:
    """Whether a parameter may be meant as this input: `q`, `Q`, `query_states`, `xq`, `input_q`, `qs`."""
    words = [word for word in re.split(r"[_\d]+", name.lower()) if word]
    return due in name.lower() or any(word[0] == due[0] or word[-1] == due[0] for word in words)
