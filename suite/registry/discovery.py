"""All registered implementations: the files that ship, and the installed entry points."""

from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from attnsuite.contracts import names as contract_names
from attnsuite.registry.backends import with_each_backend
from attnsuite.registry.declaration import Declaration
from attnsuite.registry.files import SHIPPED, locate
from attnsuite.registry.source import of_file, of_function, read

ENTRY_POINTS = "attnsuite.implementations"
"""The group of entry points. One is `contract/name = package.module:function`, or a module with decorated functions."""

DEFAULT_CONTRACT = "attention"
"""The contract of a function for which neither folder nor command line names one."""
HOME = (Path(__file__).parent.parent / "implementations").resolve()
"""The folder of the files that ship, which has a folder for each contract."""


def discover() -> list[Declaration]:
    """Every registered implementation, in alphabetical order, none of them imported.

    They come from the files that ship and from installed entry points. Files whose name begins with an underscore are
    helpers. An implementation that cannot be read is in the list with the reason. One that takes a backend is also in
    the list with every attention as its backend.
    """
    declarations: dict[str, Declaration] = {}
    for contract in contract_names():
        for file in sorted((HOME / contract).glob("[!_]*.py")):
            for declaration in of_file(file, contract, file.stem, f"{SHIPPED}{contract}.{file.stem}"):
                declarations[declaration.full_name] = declaration
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        for declaration in _of_entry_point(point):
            if declaration.full_name in declarations:  # tables show both of one name
                distribution = point.dist.name if point.dist else point.value
                declaration = replace(declaration, name=f"{declaration.name}@{distribution}")
            declarations[declaration.full_name] = declaration
    declarations |= {declaration.full_name: declaration for declaration in with_each_backend(declarations.values())}
    return sorted(declarations.values(), key=lambda declaration: (declaration.contract, declaration.name))


def _of_entry_point(point: EntryPoint) -> list[Declaration]:
    contract, slash, name = point.name.rpartition("/")
    whole = Declaration(contract if slash else DEFAULT_CONTRACT, name, "")
    try:
        whole = replace(whole, module=point.module, function=point.attr or "")
    except AttributeError:
        return [replace(whole, broken=f"the entry point's value {point.value!r} is not package.module:function")]
    if whole.contract not in contract_names():
        there = ", ".join(contract_names())
        return [replace(whole, broken=f"unknown contract {whole.contract!r}; there are: {there}")]
    spec = locate(whole.module)
    if spec is None:
        return [replace(whole, broken=f"ModuleNotFoundError: No module named {whole.module!r}")]
    if not (spec.origin and Path(spec.origin).suffix == ".py"):
        return [whole] if whole.function else [replace(whole, broken="its module has no source to read")]
    if not whole.function:
        return of_file(Path(spec.origin), whole.contract, name, whole.module)
    whole, source = replace(whole, file=spec.origin), read(Path(spec.origin))
    named = [function for function in source.decorated if function.name == whole.function]
    return [of_function(named[-1], source, whole) if named else replace(whole, broken=source.problem)]
