"""What attnsuite assumes of a user's own function: which function of a file it is, its contract, its parameters."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.registry.calls import POSITIONAL, function_parameters
from attnsuite.registry.declaration import Declaration, Uncallable
from attnsuite.registry.signatures import OWN, SIGNATURES_OF, names, recognition_note, signature
from attnsuite.registry.signatures.signature import INPUTS

ATTENTION = ("attention", "attn", "sdpa")
"""Parts of the names of functions whose authors call them an attention."""
NEVER = frozenset({"weight", "bias", "gamma", "beta", "labels"})
"""Parameters of layers and losses in every library, which are no name for a query, a key or a value."""
MIN_PART = 4
"""Letters of a parameter that is searched in another name, as `mask` in `attn_mask`: shorter ones are in many words."""
MIN_SIMILARITY = 0.75
"""difflib's ratio from which a name may be a misspelling: `is_causual` has 0.95 to `is_causal`."""


def assumptions(declaration: Declaration) -> str:
    """What was assumed of an implementation, in a line before its results; empty where nothing was."""
    signed = recognition_note(declaration.full_name, declaration.signature, declaration.signature_by)
    file, name = Path(declaration.file).name, declaration.function
    guessed = f"{declaration.full_name} is {file}:{name}; the file binds no {declaration.contract}"
    notes = guessed * declaration.guessed, signed, declaration.assumption, misnamed(declaration)
    return "; ".join(filter(None, notes))


def misnamed(declaration: Declaration) -> str:
    """What to write where a user's own function has parameters with almost the names of its contract's; or empty."""
    if not declaration.own or declaration.parameters is None or declaration.contract not in contract_names():
        return ""
    if declaration.signature and not signature(declaration.signature).has_own_names:
        return ""  # its parameters are that signature's
    contract = contract_named(declaration.contract)
    known = re.findall(r"\w+", contract.signature)
    others = [name for name in dict.fromkeys((*declaration.parameters, *declaration.untested)) if name not in known]
    absent = [name for name in contract.parameter_features if name not in declaration.parameters]
    alike = {name: near for name in absent if (near := _alike(name, others))}
    return _to_rename(declaration, alike) if alike else ""


def _to_rename(declaration: Declaration, alike: Mapping[str, str]) -> str:
    """`alike` maps names of the contract to similar names of the function."""
    actual = list(dict.fromkeys(alike.values()))
    rename = " and ".join(f"{near} to {name}" for name, near in alike.items())
    signatures = [signature(name) for name in names(declaration.contract) if name != OWN]
    homes = [
        described.name for described in signatures if not described.before and described.parameters.issuperset(actual)
    ]
    is_attention = declaration.contract == SIGNATURES_OF
    theirs = f", or say --signature {' or '.join(homes)} where it is that library's" if is_attention and homes else ""
    what = f"{declaration.full_name} takes {' and '.join(actual)}, which {declaration.contract} does not know"
    return f"{what}: rename {rename} where it means the same{theirs}; cases that need it are unsupported"


def _alike(name: str, others: Sequence[str]) -> str:
    """The first of the others that looks like the name; empty if none does."""
    part = next((other for other in others if len(other) >= MIN_PART and other in name), "")
    return part or next(iter(get_close_matches(name, others, n=1, cutoff=MIN_SIMILARITY)), "")


def taken_as_attention(declaration: Declaration, function: Callable[..., Any]) -> Declaration:
    """A function that is tested as an attention by default, with a note where its names do not show that it is one.

    Raises `Uncallable` where it takes too few inputs, or where its names are those of another layer's parameters.
    """
    parameters = function_parameters(function, through=False)
    is_named = declaration.function == SIGNATURES_OF or declaration.signature
    if not declaration.contract_assumed or is_named or parameters is None:
        return declaration
    name, inputs = declaration.function.rpartition(".")[2], ", ".join(INPUTS)
    others = (
        f"for another contract add --contract: {', '.join(name for name in contract_names() if name != SIGNATURES_OF)}"
    )
    places = [parameter.name for parameter in parameters if parameter.kind in POSITIONAL]
    first = places[: len(INPUTS)]
    if len(places) < len(INPUTS):
        if declaration.conversion or any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
            return declaration
        takes = f"{name} takes {len(places)} positional argument{'s'[: len(places) != 1]}"
        raise Uncallable(f"{takes}, and an attention is given {inputs}; {others}")
    homes = declaration.function, Path(declaration.file).stem, declaration.module.rpartition(".")[2]
    is_called_attention = any(word in home.lower() for home in homes for word in ATTENTION)
    if is_called_attention or any(map(_may_be, first, INPUTS)):
        return declaration
    if NEVER.intersection(first):
        takes = f"{name} takes {', '.join(first)}, and an attention is given {inputs}"
        raise Uncallable(f"{takes}; {others}; for an attention, --contract {SIGNATURES_OF}")
    what = f"{declaration.full_name} is tested as an attention, with {', '.join(first)} as its {inputs}"
    return replace(declaration, assumption=f"{what}; for another contract add --contract")


def _may_be(name: str, expected: str) -> bool:
    """Whether a parameter may be meant as this input: `q`, `Q`, `query_states`, `xq`, `input_q`, `qs`."""
    words = [word for word in re.split(r"[_\d]+", name.lower()) if word]
    letter = expected[0]
    return expected in name.lower() or any(word[0] == letter or word[-1] == letter for word in words)
