"""What is said of a function in its own signature's words: names of arguments, axes, a call to paste."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from attnsuite.cases import Call, Calls, Contract
from attnsuite.model import Outcome, Status
from attnsuite.registry.signatures.catalogue import OWN, SIGNATURES_OF, signature
from attnsuite.registry.signatures.mutants import mutants
from attnsuite.registry.signatures.reproduction import written
from attnsuite.registry.signatures.signature import AttentionCall, Signature

if TYPE_CHECKING:
    from attnsuite.cases.contract import Reproducer

PLAIN_ENGLISH = {
    "scale": r"\bscale\b(?==)|(?<=given )scale\b|(?<=takes no )scale\b|(?<=and no )scale\b|(?<=lacks )scale\b",
    "window": r"\bwindow\b(?==)|(?<=takes no )window\b|(?<=and no )window\b|(?<=lacks )window\b",
}
"""Arguments whose names are words of English too: where in a sentence they are the argument."""
PLACE = re.compile(r"\b(output|gradient of (?:query|key|value))\[([\d, ]+)\]")
SHAPE = re.compile(r"\b(output|gradient of (?:query|key|value)) has shape \(([\d, ]+)\), should have \(([\d, ]+)\)")
ARTICLE = re.compile(r"\bno an? ")
"""What becomes of `takes no window` where a library says `a windowed attn_bias`."""
A_TENSOR = "should return a Tensor"
DECLARED = "the declared convention:"
"""How a diagnosis introduces what the conventions say; of a signature they are its library's."""


def recognition_note(name: str, of: str, by: Sequence[str]) -> str:
    """Which signature an implementation was taken to have, and why; empty where it is the contract's own, untold.

    `by` are the parameters that told it, or the one word of whoever said it.
    """
    if not of or (of == OWN and not by):
        return ""
    found = signature(of)
    why = f"as {by[0]} says" if by[:1] in (("--signature",), ("@implementation",)) else f"known by {' and '.join(by)}"
    takes = f"axes ({', '.join(found.axes.split())})" if " " in found.axes else ""
    told = "; ".join(filter(None, (takes, found.says)))
    return f"{name} is asked in the signature {of}, {why}: {told}"


def in_signature(contract: Contract, name: str) -> Contract:
    """The contract, as it is for a function of that signature: its words, and mistakes that only it can show."""
    if name in ("", OWN) or contract.name != SIGNATURES_OF:
        return contract
    of = signature(name)
    own = contract.page.split("\n\n")[1]
    return replace(
        contract,
        page=contract.page.replace(own, f"{of.function}({', '.join(of.inputs)}, …)", 1),
        mutants=lambda: mutants(of, contract.mutants()),
        reproducing=partial(_reproducing, contract.reproducing, of),
        words=partial(translate, of),
        worded=partial(_worded, of),
    )


def translate(of: Signature, text: str) -> str:
    """A sentence with the signature's names for arguments and places in tensors."""
    for ours, theirs in of.words.items():
        pattern = PLAIN_ENGLISH.get(ours, rf"\b{ours}\b")
        text = re.sub(pattern, theirs.replace("\\", r"\\"), text)
    text = ARTICLE.sub("no ", text)
    text = PLACE.sub(partial(_place, of), text)
    text = SHAPE.sub(partial(_shape, of), text)
    text = text.replace(A_TENSOR, f"should return an array of {of.arrays.name}") if of.arrays.name != "torch" else text
    return text.replace(DECLARED, f"{of.name}'s convention:")


def _worded(of: Signature, outcome: Outcome, calls: Calls) -> Outcome:
    """An outcome in the signature's words; one that raised says what the axes were."""
    detail = translate(of, outcome.detail)
    if outcome.status == Status.ERROR and "is called as" not in detail:
        apart = of.has_group_axis and any(_grouped(call) for call in calls)
        axes = ", ".join(of.axes_of_groups if apart else of.axes.split())
        detail = f"{detail}; it is called with {', '.join(of.inputs)} of axes ({axes})"
    return structs.replace(outcome, detail=detail)


def _grouped(call: Call) -> bool:
    """Whether heads of queries share one of keys."""
    query, key, value = (call.tensors.get(name) for name in ("query", "key", "value"))
    if query is None or key is None or value is None:
        return False
    return AttentionCall(query, key, value, call.options).groups > 1


def _place(of: Signature, found: re.Match[str]) -> str:
    """`output[0, 3, 1, 7] (b, s, h, d)` for `output[0, 1, 3, 7]`."""
    axes = ", ".join(of.axes.split())
    return f"{_named(of, found[1])}[{', '.join(_turned(of, found[2]))}] ({axes})"


def _shape(of: Signature, found: re.Match[str]) -> str:
    came, due = (", ".join(_turned(of, each)) for each in (found[2], found[3]))
    return f"{_named(of, found[1])} has shape ({came}), should have ({due})"


def _named(of: Signature, what: str) -> str:
    """`gradient of q` for `gradient of query`."""
    names = dict(zip(("query", "key", "value"), of.inputs, strict=True))
    head, _, name = what.rpartition(" ")
    return f"{head} {names[name]}" if name in names else what


def _turned(of: Signature, numbers: str) -> list[str]:
    """Sizes or places of the contract's axes in the signature's order; axes that were added are 0, or 1 of shapes."""
    found = numbers.replace(",", " ").split()
    if not of.heads_inside or len(found) < 3:
        return found
    *leading, heads, rows, width = found
    return [*(leading if of.axes.startswith("b") else ()), rows, heads, width]


def _reproducing(base: Callable[[], Reproducer | None], of: Signature) -> Reproducer | None:
    """How calls are made smaller and written: as a call of the function itself."""
    found = base()
    if found is None:
        return None

    def as_theirs(*arguments: Any) -> Sequence[str]:
        return written(of, arguments[0], found.written(*arguments))

    return replace(found, written=as_theirs)
