"""`attnsuite new`: a file to begin with, from `templates/`, which replaces none that is there."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from textwrap import wrap

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from attnsuite.cases import Contract
from attnsuite.cli.requests import New
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.registry import locate
from attnsuite.registry.signatures import OWN, SIGNATURES_OF
from attnsuite.registry.signatures import signature as signature_named

WIDTH = 118
"""Characters of a comment, without its sign: most linters take lines of 120."""
NEEDED = {"jax": "jax", "mlx": "mlx"}
"""The library without which a file is missing, by the name of its arrays."""


def run(options: New) -> None:
    """Write NAME.py and print how it is checked. Raises UsageError for a bad name, and where the file exists."""
    name, contract = options.name, options.contract
    file = Path(name).with_suffix(".py") if name.endswith(".py") else Path(f"{name}.py")
    stem = file.name.removesuffix(".py")
    if not stem.isidentifier() or keyword.iskeyword(stem):
        raise UsageError(f"NAME expects letters, digits and underscores, which Python can import; got {stem!r}")
    _refuse_hiding(stem, file.absolute().parent)
    text = rendered(file, contract, options.signature)
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise UsageError(f"{str(file)!r} exists, and is left as it is: choose another name") from None
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {error.strerror}") from None
    yours = "" if contract == SIGNATURES_OF else " The body of its function is left to you."
    print(f"{file} is written.{yours} Check it: attnsuite check {file}")


def _refuse_hiding(name: str, folder: Path) -> None:
    """Raise UsageError for the name of a module, which a file in this folder would hide from code that runs there."""
    spec = None if name in sys.stdlib_module_names else locate(name)
    if name in sys.stdlib_module_names or (spec is not None and folder not in _homes(spec)):
        raise UsageError(f"{name!r} is the name of a module, which {name}.py would hide: choose another name")


def _homes(spec: ModuleSpec) -> set[Path]:
    places = list(spec.submodule_search_locations or filter(None, (spec.origin,)))
    return {Path(place).absolute().parent for place in places}


def rendered(file: Path, contract: str, signature: str | None = None) -> str:
    """The text of a file: attention computed plainly in a signature; of another contract the function's head.

    Raises UsageError for a contract or a signature that does not exist, or do not go together.
    """
    of = contract_named(contract)
    if contract == SIGNATURES_OF:
        return _attention(of, signature or OWN, file)
    if signature:
        raise UsageError(f"signatures are those of {SIGNATURES_OF}; {contract} has one")
    comments = _comments(of, file, [])
    return _fill("blank", name=file.stem, contract=contract, is_model=of.is_model, comments=comments, head=_head(of))


def _fill(template: str, **values: object) -> str:
    folder = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(loader=folder, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.get_template(f"{template}.py.jinja").render(values)


def _attention(contract: Contract, signature: str, file: Path) -> str:
    of = signature_named(signature)
    arrays = of.arrays.name
    declared = {
        f'contract="{contract.name}"': file.absolute().parent.name in contract_names(),  # else the folder's name says
        f'signature="{signature}"': signature != OWN,
        f'requires=["{NEEDED.get(arrays)}"]': arrays in NEEDED,
    }
    words = ", ".join(word for word, needed in declared.items() if needed)
    head, arrow, body = of.template.partition(") -> ")
    kind, newline, body = body.partition("\n")
    docstring = '    """The softmax of the scaled scores, times the values."""\n'
    return _fill(
        "attention",
        name=file.stem,
        called=f"in the signature of {of.function}" if " " not in of.function else f"as {of.function}",
        arrays=arrays,
        comments=_comments(contract, file, [] if signature == OWN else list(_of_signature(signature))),
        decorator=f"@implementation({words})" if words else "@implementation",
        function=f"{head}{arrow}{kind}{newline}{docstring}{body}".rstrip("\n"),
    )


def _of_signature(signature: str) -> Iterator[str]:
    """How a signature differs from the contract's."""
    of = signature_named(signature)
    axes = ", ".join(of.axes.split())
    yield f"The signature {signature} is that of {of.function}: axes ({axes}); {of.says}."
    if of.words:
        yield f"Of the words below, {', '.join(f'{theirs} is {ours}' for ours, theirs in of.words.items())}."
    for point, choice in of.conventions.items():
        yield f"{point} is {choice}, which conventions={{...}} may change."


def _head(contract: Contract) -> str:
    """The head of the function that the contract calls."""
    called, _, rest = contract.signature.partition(" -> ")[0].partition("(")
    name = contract.name if contract.is_model else called
    arguments = [_annotated(each.strip()) for each in rest.rpartition(")")[0].split(", ")]
    head = f"def {name}({', '.join(arguments)}) -> Any:"
    if len(head) <= WIDTH:
        return head
    return "".join([f"def {name}(\n", *(f"    {each},\n" for each in arguments), ") -> Any:"])


def _annotated(argument: str) -> str:
    """`x` as `x: Any`, and `k=1` as `k: Any = 1`."""
    name, sign, default = argument.partition("=")
    if argument.startswith("*"):
        return argument
    return f"{name}: Any = {default}" if sign else f"{name}: Any"


def _comments(contract: Contract, file: Path, signature: list[str]) -> str:
    """The command that checks the file, the signature, and the contract's own page."""
    lines = [f"Check it: attnsuite check {file}", "", *signature, *[""] * bool(signature)]
    for block in contract.page.strip().split("\n\n"):
        rows = block.splitlines()
        is_table = any(row.startswith(" ") for row in rows)
        lines += [row.removeprefix("  ") for row in rows] if is_table else wrap(" ".join(rows), WIDTH)
        lines.append("")
    return "\n".join(
        f"# {part}".rstrip() for line in lines[:-1] for part in (wrap(line, WIDTH) if len(line) > WIDTH else [line])
    )
