"""What attnsuite assumes of a user's own function: which function of a file it is, its contract, its parameters."""

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.registry.calls import POSITIONAL, function_parameters
from attnsuite.registry.declaration import Declaration, Uncallable
from attnsuite.registry.signatures import SIGNATURES_OF, recognition_note, signature
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
    notes = guessed * declaration.guessed, signed, misnamed(declaration)
    return "; ".join(filter(None, notes))


def misnamed(declaration: Declaration) -> str:
    """What to write where a user's own function has parameters with almost the names of its contract's; or empty."""
    if not declaration.own or declaration.parameters is None:
        return ""
    if declaration.signature and not signature(declaration.signature).has_own_names:
        return ""  # its parameters are that signature's
    contract = contract_named(declaration.contract)
    known = re.findall(r"\w+", contract.signature)
    others = [name for name in dict.fromkeys((*declaration.parameters, *declaration.untested)) if name not in known]
    absent = [name for name in contract.parameter_features if name not in declaration.parameters]
    alike = {name: near for name in absent if (near := _alike(name, others))}
    if not alike:
        return ""
    what = f"{declaration.full_name} takes {' and '.join(dict.fromkeys(alike.values()))}"
    rename = " and ".join(f"{near} to {name}" for name, near in alike.items())
    unknown = f"which {declaration.contract} does not know: rename {rename} where it means the same"
    return f"{what}, {unknown}; cases that need it are unsupported"


def _alike(name: str, others: Sequence[str]) -> str:
    """The first of the others that looks like the name; empty if none does."""
    part = next((other for other in others if len(other) >= MIN_PART and other in name), "")
    return part or next(iter(get_close_matches(name, others, n=1, cutoff=MIN_SIMILARITY)), "")


def refuse_other_layers(declaration: Declaration, function: Callable[..., Any]) -> None:
    """Raise `Uncallable` for a user's attention that nothing calls so, and that takes what other layers take."""
    parameters = function_parameters(function, through=False)
    if declaration.contract != SIGNATURES_OF or declaration.signature or not declaration.own or parameters is None:
        return
    homes = declaration.function, Path(declaration.file).stem, declaration.module.rpartition(".")[2]
    is_called_attention = any(word in home.lower() for home in homes for word in ATTENTION)
    takes_any = declaration.conversion or any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    first = [parameter.name for parameter in parameters if parameter.kind in POSITIONAL][: len(INPUTS)]
    is_short = len(first) < len(INPUTS) and not takes_any
    if not is_called_attention and (is_short or NEVER.intersection(first)):
        takes = f"{declaration.function.rpartition('.')[2]} takes {', '.join(first) or 'nothing by position'}"
        raise Uncallable(
            f"{takes}; an attention is given {', '.join(INPUTS)}: say --contract {', '.join(contract_names())}"
        )
