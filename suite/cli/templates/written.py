"""The text of a file that begins an implementation."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from attnsuite.cases import Contract
from attnsuite.cli.templates.helpers import HEADS, SUITE
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.registry.signatures import OWN, SIGNATURES_OF
from attnsuite.registry.signatures import signature as signature_named

WIDTH = 118
"""Characters of a comment, without its sign: lines of 120 are what most linters take at most."""
FIRST_CHECK = "attnsuite check {file}"
LATER = "from __future__ import annotations\n"


def written(name: str, contract: str, signature: str, file: str, folder: str = "") -> str:
    """A file that begins an implementation called `name`, to be checked as `file`, in a folder of that name.

    Attention is computed plainly in every signature; what another contract computes is left to its author, and said.
    Raises UsageError for a contract or a signature that does not exist, or do not go together.
    """
    of = contract_named(contract)
    if contract != SIGNATURES_OF:
        if signature:
            raise UsageError(f"signatures are those of {SIGNATURES_OF}; {contract} has one")
        return _blank(name, of, file)
    return _attention(name, of, signature or OWN, file, says=folder in contract_names())


def _attention(name: str, contract: Contract, signature: str, file: str, says: bool) -> str:
    """The file; its decorator `says` the contract where the folder's name would say another."""
    of = signature_named(signature)
    head = HEADS[of.arrays.name]
    words = {
        f'contract="{contract.name}"': says,
        f'signature="{signature}"': signature != OWN,
        f"requires={_listed(head.requires)}": bool(head.requires),
    }
    called = f"in the signature of {of.function}" if " " not in of.function else f"as {of.function}"
    parts = [
        f'"""{_sentence(f"{name}: attention {called}")}"""\n',
        LATER,
        head.imports,
        _comments(contract, file, () if signature == OWN else _of_signature(signature)),
        *head.helpers,
        f"{_decorator(words)}\n{_documented(of.template)}",
    ]
    return _joined(parts)


def _documented(function: str) -> str:
    """The function with a docstring in front of its body."""
    head, end, body = function.partition(") -> ")
    rest, newline, body = body.partition("\n")
    return f'{head}{end}{rest}{newline}    """The softmax of the scaled scores, times the values."""\n{body}'


def _of_signature(signature: str) -> Sequence[str]:
    """What a signature has of its own."""
    of = signature_named(signature)
    names = [f"{theirs} is {ours}" for ours, theirs in of.words.items()]
    return (
        f"The signature {signature} is that of {of.function}: axes ({', '.join(of.axes.split())}); {of.says}.",
        *([f"Of the words below, {', '.join(names)}."] if names else []),
        *[f"{point} is {chosen}, which conventions={{...}} may change." for point, chosen in of.conventions.items()],
    )


def _blank(name: str, contract: Contract, file: str) -> str:
    """A file whose function says that it is not written yet."""
    signature = contract.signature.partition(" -> ")[0]
    function = _function(contract, signature)
    says_which = {f'contract="{contract.name}"': True}
    says = "a model's factory" if contract.is_model else "a function"
    parts = [
        f'"""{_sentence(f"{name}: {says} of the contract {contract.name}")}"""\n',
        LATER,
        f"from typing import Any\n\n{SUITE}",
        _comments(contract, file, ()),
        f"{_decorator(says_which)}\n{function}",
    ]
    return _joined(parts)


def _function(contract: Contract, signature: str) -> str:
    """The contract's call as a function that declines: its body is what only its author can write."""
    called, _, rest = signature.partition("(")
    name = contract.name if contract.is_model else called
    arguments = [_annotated(each.strip()) for each in rest.rpartition(")")[0].split(", ")]
    head = f"def {name}({', '.join(arguments)}) -> Any:"
    if len(head) > WIDTH:
        head = "".join([f"def {name}(\n", *(f"    {each},\n" for each in arguments), ") -> Any:"])
    says = _sentence(f"What the contract {contract.name} asks for")
    reason = f"what {contract.name} computes is not written yet"
    return f'{head}\n    """{says}"""\n    raise NotImplementedError("{reason}")\n'


def _annotated(argument: str) -> str:
    """`x` as `x: Any`, and `k=1` as `k: Any = 1`."""
    if argument.startswith("*"):
        return argument
    name, sign, default = argument.partition("=")
    return f"{name}: Any = {default}" if sign else f"{name}: Any"


def _comments(contract: Contract, file: str, first: Sequence[str]) -> str:
    """What the contract says of itself, as comments, behind the command that checks the file."""
    page = [line for block in contract.page.strip().split("\n\n") for line in (*_narrower(block), "")]
    lines = [f"Check it: {FIRST_CHECK.format(file=file)}", "", *first, *([""] if first else []), *page[:-1]]
    return "".join(f"# {each}".rstrip() + "\n" for line in lines for each in _in_width(line))


def _in_width(line: str) -> list[str]:
    return [line] if len(line) <= WIDTH else wrap(line, WIDTH)


def _narrower(block: str) -> list[str]:
    """The lines of a paragraph, filled anew, or of a table, which moves to the left."""
    lines = block.splitlines()
    if any(line.startswith(" ") for line in lines):
        return [line.removeprefix("  ") for line in lines]
    return wrap(" ".join(lines), WIDTH)


def _decorator(words: dict[str, bool]) -> str:
    given = ", ".join(word for word, there in words.items() if there)
    return f"@implementation({given})" if given else "@implementation"


def _listed(names: Sequence[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"[{quoted}]"


def _sentence(text: str) -> str:
    return f"{text}."


def _joined(parts: Sequence[str]) -> str:
    """The docstring, imports and comments, one empty line apart; functions, two."""
    top, rest = parts[:4], parts[4:]
    return "\n".join(top) + "".join(f"\n\n{part}" for part in rest)
