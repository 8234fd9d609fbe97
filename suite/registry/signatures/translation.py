"""The contract attention for functions of another library's signature: its words, its mutants, its reproductions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from attnsuite.cases import Calls, Contract, Mutant
from attnsuite.cases.mutants import Mutation
from attnsuite.cases.mutants import mutants as made
from attnsuite.model import Outcome, Status
from attnsuite.registry.signatures.reproduction import call_lines
from attnsuite.registry.signatures.signature import (
    BY_AUTHOR,
    BY_USER,
    INPUTS,
    OWN,
    SIGNATURES_OF,
    Signature,
    signature,
)

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.cases.contract import Reproducer

ARGUMENTS = {
    "scale": r"\bscale\b(?==)|(?<=given )scale\b|(?<=takes no )scale\b|(?<=and no )scale\b|(?<=lacks )scale\b",
    "window": r"\bwindow\b(?==)|(?<=takes no )window\b|(?<=and no )window\b|(?<=lacks )window\b",
}
"""Arguments whose names are English words: the places in a sentence where they mean the argument."""
PLACE = re.compile(r"\b(output|gradient of (?:query|key|value))\[([\d, ]+)\]")
SHAPE = re.compile(r"\b(output|gradient of (?:query|key|value)) has shape \(([\d, ]+)\), should have \(([\d, ]+)\)")
ARTICLE = re.compile(r"\bno an? ")
"""What `takes no window` becomes where a library calls it `a windowed attn_bias`."""
A_TENSOR = "should return a Tensor"
DECLARED = "the declared convention:"
"""How a diagnosis introduces a convention; of a signature it is the library's."""
OWN_AXES = frozenset({"attends_over_heads", "returns_heads_last", "reshapes_output_instead_of_transposing"})
"""The contract's mutants with mistakes in the order of its own axes. A signature with other axes replaces them."""


def recognition_note(name: str, theirs: str, by: Sequence[str]) -> str:
    """The signature with which an implementation is tested, and why; empty for the contract's own by default.

    `by` are the parameters that identify it, or BY_USER, or BY_AUTHOR.
    """
    if not theirs or (theirs == OWN and not by):
        return ""
    known = signature(theirs)
    why = f"as {by[0]} says" if by and by[0] in (BY_USER, BY_AUTHOR) else f"recognised by {' and '.join(by)}"
    axes = f"axes ({', '.join(known.axes.split())})" if " " in known.axes else ""
    return f"{name} is tested with the signature {theirs}, {why}: {'; '.join(filter(None, (axes, known.says)))}"


def in_signature(contract: Contract, name: str) -> Contract:
    """The contract for functions with that signature: in its words, with mutants of its order of axes."""
    if name in ("", OWN) or signature(name).contract != contract.name:
        return contract
    theirs = signature(name)
    own = contract.page.split("\n\n")[1]
    page = contract.page.replace(own, f"{theirs.function}({', '.join((*theirs.before, *theirs.inputs))}, …)", 1)
    if contract.name != SIGNATURES_OF:
        return replace(contract, page=page, rephrase=partial(_in_words, theirs))
    return replace(
        contract,
        page=page,
        mutants=lambda: mutants(theirs, contract.mutants()),
        reproducer=partial(_reproducer, contract.reproducer, theirs),
        rephrase=partial(translate, theirs),
        rephrase_outcome=partial(_translated, theirs),
    )


def _in_words(theirs: Signature, text: str) -> str:
    """A sentence with the signature's names of arguments."""
    for our_name, their_name in theirs.words.items():
        pattern = ARGUMENTS.get(our_name, rf"\b{our_name}\b")
        text = re.sub(pattern, their_name.replace("\\", r"\\"), text)
    return ARTICLE.sub("no ", text)


def translate(theirs: Signature, text: str) -> str:
    """A sentence with the signature's names of arguments, and places in tensors in its order of axes."""
    text = _in_words(theirs, text)
    text = PLACE.sub(partial(_place, theirs), text)
    text = SHAPE.sub(partial(_shapes, theirs), text)
    if theirs.arrays.name != "torch":
        text = text.replace(A_TENSOR, f"should return an array of {theirs.arrays.name}")
    return text.replace(DECLARED, f"{theirs.name}'s convention:")


def _translated(theirs: Signature, outcome: Outcome, calls: Calls) -> Outcome:
    """An outcome in the signature's words; the detail of an error also gives the axes of the call."""
    detail = translate(theirs, outcome.detail)
    if outcome.status == Status.ERROR and "is called as" not in detail:
        axes = ", ".join(theirs.axes.split())
        detail = f"{detail}; it is called with {', '.join(theirs.inputs)} of axes ({axes})"
    return structs.replace(outcome, detail=detail)


def _place(theirs: Signature, match: re.Match[str]) -> str:
    """`output[0, 3, 1, 7] (b, s, h, d)` for `output[0, 1, 3, 7]`."""
    axes = ", ".join(theirs.axes.split())
    return f"{_tensor(theirs, match[1])}[{_in_order(theirs, match[2])}] ({axes})"


def _shapes(theirs: Signature, match: re.Match[str]) -> str:
    actual, expected = (_in_order(theirs, shape) for shape in (match[2], match[3]))
    return f"{_tensor(theirs, match[1])} has shape ({actual}), should have ({expected})"


def _tensor(theirs: Signature, name: str) -> str:
    """`gradient of q` for `gradient of query`."""
    head, _, last = name.rpartition(" ")
    names = dict(zip(INPUTS, theirs.inputs, strict=True))
    return f"{head} {names[last]}" if last in names else name


def _in_order(theirs: Signature, numbers: str) -> str:
    """Sizes or places of the contract's axes in the signature's order, without axes that it does not have."""
    axes = numbers.replace(",", " ").split()
    if theirs.heads_inside and len(axes) > 2:
        *leading, heads, rows, width = axes
        axes = [*(leading if theirs.axes.startswith("b") else ()), rows, heads, width]
    return ", ".join(axes)


def _reproducer(base: Callable[[], Reproducer | None], theirs: Signature) -> Reproducer | None:
    """The contract's reproducer, which writes calls of the function itself."""
    own = base()
    if own is None:
        return None

    def script(*arguments: Any) -> Sequence[str]:
        return call_lines(theirs, arguments[0], own.script(*arguments))

    return replace(own, script=script)


# Mistakes with the order of positions and heads, in place of the contract's own


def mutants(theirs: Signature, own: Sequence[Mutant]) -> list[Mutant]:
    """The contract's mutants, with those of the signature's order of axes in place of `OWN_AXES`."""
    if not theirs.heads_inside:
        return list(own)
    from attnsuite.contracts.attention.computation.forward import Whole

    *leading, positions, heads, width = theirs.axes.split()
    axes, exchanged = (f"({', '.join([*leading, *pair, width])})" for pair in ((positions, heads), (heads, positions)))
    mistakes = {
        "reads_positions_as_heads": Mutation(
            f"the axes {axes} are read with heads before positions: the heads of a position attend to each other",
            _over_heads,
        ),
        "returns_heads_first": Mutation(
            f"the output has the axes {exchanged} instead of {axes}", lambda call: _exchanged(Whole.attention(call))
        ),
        "reshapes_output_instead_of_transposing": Mutation(
            f"the output {exchanged} is reshaped to {axes} instead of transposed", _reshaped
        ),
    }
    return [*made(Whole, attention=mistakes), *(mutant for mutant in own if mutant.name not in OWN_AXES)]


def _over_heads(call: Any) -> Any:
    """Attention between the heads of each position; tensors without an axis of heads have one head."""
    from attnsuite.contracts.attention.computation.forward import Whole

    if call.rank < 3:
        return _over_heads(call.changed(lambda tensor: tensor.unsqueeze(0))).squeeze(0)
    return _exchanged(Whole()(call.changed(_exchanged)))


def _reshaped(call: Any) -> Tensor:
    from attnsuite.contracts.attention.computation.forward import Whole

    output: Tensor = Whole.attention(call)
    return _exchanged(output.reshape(_exchanged(output).shape))


def _exchanged(tensor: Tensor) -> Tensor:
    """The tensor with positions and heads exchanged; unchanged without an axis of heads."""
    return tensor.transpose(-2, -3) if tensor.dim() > 2 else tensor
