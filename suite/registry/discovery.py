"""All registered implementations: the files in a folder of implementations, and the installed entry points."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from attnsuite.contracts import names as contract_names
from attnsuite.registry.backends import with_each_backend
from attnsuite.registry.declaration import Declaration
from attnsuite.registry.files import locate
from attnsuite.registry.source import of_file, of_function, read

ENTRY_POINTS = "attnsuite.implementations"
"""The group of entry points. One is `contract/name = package.module:function`, or a module with decorated functions."""

DEFAULT_CONTRACT = "attention"
"""The contract of a function for which neither folder nor command line names one."""


def contracts(root: str | Path | None = None) -> tuple[str, ...]:
    """The names of the contracts: those of the suite, and the folders of implementations."""
    home, _ = _home(root)
    return tuple(sorted({*contract_names(), *(folder.name for folder in _folders(home))}))


def discover(root: str | Path | None = None) -> list[Declaration]:
    """Every registered implementation, in alphabetical order, none of them imported.

    They come from the files that ship, or from those in the folder `root` instead, and from installed entry points.
    Files whose name begins with an underscore are helpers. An implementation that cannot be read is in the list with
    the reason. One that takes a backend is also in the list with every attention as its backend.
    """
    home, package = _home(root)
    declarations: dict[str, Declaration] = {}
    for folder in _folders(home):
        for file in sorted(folder.glob("*.py")):
            if not file.name.startswith("_"):
                module = f"{package}.{folder.name}.{file.stem}" if package else ""
                for declaration in of_file(file, folder.name, file.stem, module):
                    declarations[declaration.full_name] = declaration
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        for declaration in _of_entry_point(point, contracts(root)):
            if declaration.full_name in declarations:  # tables show both of one name
                distribution = point.dist.name if point.dist else point.value
                declaration = replace(declaration, name=f"{declaration.name}@{distribution}")
            declarations[declaration.full_name] = declaration
    declarations |= {declaration.full_name: declaration for declaration in with_each_backend(declarations.values())}
    return sorted(declarations.values(), key=lambda declaration: (declaration.contract, declaration.name))


def _home(root: str | Path | None) -> tuple[Path, str]:
    """The folder with a folder per contract, and the name of the package that it is, or empty."""
    if root is not None:
        return Path(root).resolve(), ""
    return (Path(__file__).parent.parent / "implementations").resolve(), "attnsuite.implementations"


def _folders(home: Path) -> list[Path]:
    if not home.is_dir():
        return []
    return sorted(
        folder for folder in home.iterdir() if folder.is_dir() and folder.name.isidentifier() and folder.name[0] != "_"
    )


def _of_entry_point(point: EntryPoint, known: Sequence[str]) -> list[Declaration]:
    contract, slash, name = point.name.rpartition("/")
    whole = Declaration(contract if slash else DEFAULT_CONTRACT, name, "")
    try:
        whole = replace(whole, module=point.module, function=point.attr or "")
    except AttributeError:
        return [replace(whole, broken=f"the entry point's value {point.value!r} is not package.module:function")]
    if whole.contract not in known:
        return [replace(whole, broken=f"unknown contract {whole.contract!r}; there are: {', '.join(known)}")]
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
