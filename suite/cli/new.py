"""`attnsuite new`: write a file that begins an implementation, from `templates/`. Existing files are not replaced."""

import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from attnsuite.cases import Contract
from attnsuite.cases.documented import DocumentedNumbers
from attnsuite.cli.requests import New
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.contracts.sources import documents
from attnsuite.model import UsageError
from attnsuite.registry import locate
from attnsuite.registry.signatures import OWN, SIGNATURES_OF, names
from attnsuite.registry.signatures import signature as signature_named

WIDTH = 118
"""Characters of a comment without `# `; most linters accept lines of 120."""
NEEDED = {"jax": "jax", "mlx": "mlx"}
"""The library that a file requires, by the name of its arrays."""


def run(options: New) -> None:
    """Write NAME.py and print how it is checked. Raises UsageError for a bad name, and where the file exists."""
    name, contract = options.name, options.contract
    file = Path(name).with_suffix(".py") if name.endswith(".py") else Path(f"{name}.py")
    stem = file.name.removesuffix(".py")
    if not stem.isidentifier() or keyword.iskeyword(stem):
        raise UsageError(f"NAME expects a name that Python can import: letters, digits and underscores; got {stem!r}")
    _refuse_hiding(stem, file.absolute().parent)
    if options.exercise and options.signature:
        raise UsageError("--exercise does not go with --signature: its examples are in the signature of the contract")
    text = (
        exercise(file, contract, options.exercise) if options.exercise else rendered(file, contract, options.signature)
    )
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise UsageError(f"{str(file)!r} exists and was not changed; choose another name") from None
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {error.strerror}") from None
    has_body = (contract == SIGNATURES_OF or options.signature) and not options.exercise
    left = "" if has_body else " Write the body of its function."
    print(f"{file} is written.{left} {_how_to_check(file, options.exercise)}")


def _refuse_hiding(name: str, folder: Path) -> None:
    """Raise UsageError for the name of a module: a file in this folder would hide it from code that runs there."""
    spec = None if name in sys.stdlib_module_names else locate(name)
    places = [*(spec.submodule_search_locations or filter(None, (spec.origin,)))] if spec else []
    homes = {Path(place).absolute().parent for place in places}
    if name in sys.stdlib_module_names or (spec is not None and folder not in homes):
        raise UsageError(f"{name}.py would hide the module {name!r} from Python; choose another name")


def rendered(file: Path, contract: str, signature: str | None = None) -> str:
    """The text of a file: a plain function in a signature; for another contract the head of its function.

    Raises UsageError for an unknown contract or signature, and for a signature with another contract.
    """
    theirs = signature_named(signature or OWN).contract
    contract = theirs if contract == SIGNATURES_OF else contract
    definition = contract_named(contract)
    if contract == theirs:
        return _of_signature(definition, signature or OWN, file)
    if signature and names(contract):
        raise UsageError(
            f"--signature {signature} is for the contract {theirs}; {contract} has {', '.join(names(contract))}"
        )
    if signature:
        raise UsageError(f"--signature is for the contract {SIGNATURES_OF}; the contract {contract} has one signature")
    comments = _comments(definition, file, [])
    values = {"name": file.stem, "contract": contract, "is_model": definition.is_model, "head": _head(definition)}
    return _fill("blank", comments=comments, **values)


def exercise(file: Path, contract: str, section: str) -> str:
    """The text of a file with a function to complete, and the documents' examples of a section.

    Raises UsageError for a section without numbers of this contract, and lists the contracts that have some.
    """
    by_contract = {name: list(_examples(name, section)) for name in contract_names()}
    if not (examples := by_contract.get(contract_named(contract).name)):
        others = [name for name, theirs in by_contract.items() if theirs]
        there = f"--contract {' or '.join(others)}" if others else "a section such as doc-003/3.4 or doc-004/11.3"
        raise UsageError(f"{section!r:.80} has no examples of the contract {contract}; expected {there}")
    definition = contract_named(contract)
    head, comments = _head(definition), _comments(definition, file, [], section)
    values = {"contract": contract, "exercise": section, "head": head, "comments": comments, "examples": examples}
    return _fill("exercise", name=file.stem, function=head[4 : head.index("(")], **values)


def _examples(contract: str, section: str) -> Iterator[dict[str, Any]]:
    """The examples of a section whose numbers a call of the contract gives, as Python."""
    if contract_named(contract).is_model:
        return
    for case in contract_named(contract).cases():
        if isinstance(case, DocumentedNumbers) and case.source and case.source.example.startswith(section):
            (call, *_), note = case.calls("float64"), documents.examples().get(case.source.example)
            yield {
                "name": case.name.removeprefix("documents/"),
                "remark": shorten((note.note if note else "") or case.why, WIDTH - 6, placeholder=" …"),
                "inputs": {name: _python(tensor.tolist()) for name, tensor in call.tensors.items()},
                "options": dict(call.options),
                "expected": _python(case.printed.tolist()),
            }


def _python(values: Any) -> str:
    """Nested lists as Python, in which a bare inf or nan would be no number."""
    return re.sub(r"\b(inf|nan)\b", r'float("\1")', repr(values))


def _fill(template: str, **values: object) -> str:
    folder = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(loader=folder, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.get_template(f"{template}.py.jinja").render(values)


def _of_signature(contract: Contract, signature: str, file: Path) -> str:
    described = signature_named(signature)
    arrays = described.arrays.name
    declared = {
        f'contract="{contract.name}"': file.absolute().parent.name in contract_names(),  # else the folder's name says
        f'signature="{signature}"': signature != OWN,
        f'requires=["{NEEDED.get(arrays)}"]': arrays in NEEDED,
    }
    words = ", ".join(word for word, needed in declared.items() if needed)
    head, arrow, body = described.template.partition(") -> ")
    kind, newline, body = body.partition("\n")
    says = {"merge_states": "Two parts of an attention, merged by their log-sum-exps."}
    docstring = f'    """{says.get(contract.name, "The softmax of the scaled scores, times the values.")}"""\n'
    return _fill(
        "attention",
        name=file.stem,
        contract=contract.name,
        called=f"as {described.function}" if " " in described.function else f"in {described.function}'s signature",
        arrays=arrays,
        any=arrays == "torch" and "Any" in described.template,
        softmax=arrays == "torch" and "softmax(scores, hidden" in described.template,
        comments=_comments(contract, file, [] if signature == OWN else list(_differences(signature))),
        decorator=f"@implementation({words})" if words else "@implementation",
        function=f"{head}{arrow}{kind}{newline}{docstring}{body}".rstrip("\n"),
    )


def _differences(signature: str) -> Iterator[str]:
    """How a signature differs from the contract's."""
    described = signature_named(signature)
    axes = ", ".join(described.axes.split())
    yield f"The signature {signature} is that of {described.function}: axes ({axes}); {described.says}."
    if described.words:
        yield f"Of the words below, {', '.join(f'{theirs} is {ours}' for ours, theirs in described.words.items())}."
    for point, choice in described.conventions.items():
        yield f"{point} is {choice}, which conventions={{...}} may change."


def _head(contract: Contract) -> str:
    """The head of the function that the contract calls."""
    called, _, rest = contract.signature.partition(" -> ")[0].partition("(")
    name = contract.name if contract.is_model else called
    arguments = [_annotated(argument.strip()) for argument in rest.rpartition(")")[0].split(", ")]
    head = f"def {name}({', '.join(arguments)}) -> Any:"
    if len(head) <= WIDTH:
        return head
    return "".join([f"def {name}(\n", *(f"    {argument},\n" for argument in arguments), ") -> Any:"])


def _annotated(argument: str) -> str:
    """`x` as `x: Any`, and `k=1` as `k: Any = 1`."""
    name, sign, default = argument.partition("=")
    if argument.startswith("*"):
        return argument
    return f"{name}: Any = {default}" if sign else f"{name}: Any"


def _how_to_check(file: Path, section: str | None) -> str:
    cases = f' --case "documents/{section}*" --dtype float32' if section else ""
    return f"Check it: attnsuite check {file}{cases}"


def _comments(contract: Contract, file: Path, signature: list[str], section: str | None = None) -> str:
    """The command that checks the file, the signature, and the contract's own page."""
    lines = [_how_to_check(file, section), "", *signature, *[""] * bool(signature)]
    for block in contract.page.strip().split("\n\n"):
        rows = block.splitlines()
        is_table = any(row.startswith(" ") for row in rows)
        lines += [row.removeprefix("  ") for row in rows] if is_table else wrap(" ".join(rows), WIDTH)
        lines.append("")
    return "\n".join(
        f"# {part}".rstrip() for line in lines[:-1] for part in (wrap(line, WIDTH) if len(line) > WIDTH else [line])
    )
