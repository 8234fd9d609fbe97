"""Which implementations there are, and which of them a request names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from suite.records import UsageError
from suite.registry.declaration import Declaration
from suite.registry.loading import load, locate, on_path
from suite.registry.plugging import plugged, plugs, takes_plug
from suite.registry.reading import FunctionSource, ModuleSource, Unreadable, read

ENTRY_POINTS = "attnsuite.implementations"
"""The entry-point group: `contract/name = package.module:function`, or a module whose decorated functions all count."""

DEFAULT_CONTRACT = "attention"


def contracts(root: str | Path | None = None) -> tuple[str, ...]:
    """The names of the contracts: the folders of suite/contracts and of the room."""
    room, _ = _room(root)
    homes = (Path(__file__).parent.parent / "contracts", room)
    return tuple(sorted({folder.name for home in homes for folder in _folders(home)}))


def discover(root: str | Path | None = None) -> list[Declaration]:
    """Every registered implementation, in alphabetical order, none of them imported.

    They are the files of the shipped room, or of the folder `root` in its place, and the installed entry points. Files
    whose name begins with an underscore are helpers. What cannot be read stands in the list with the reason. Each that
    takes a plug stands there with every attention plugged into it as well.
    """
    room, package = _room(root)
    found: dict[str, Declaration] = {}
    for folder in _folders(room):
        for file in sorted(folder.glob("*.py")):
            if not file.name.startswith("_"):
                module = f"{package}.{folder.name}.{file.stem}" if package else ""
                for declaration in _of_file(file, folder.name, file.stem, module):
                    found[declaration.full_name] = declaration
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        for declaration in _of_entry_point(point, contracts(root)):
            if declaration.full_name in found:  # two of the same name both stand in every table
                distribution = point.dist.name if point.dist else point.value
                declaration = replace(declaration, name=f"{declaration.name}@{distribution}")
            found[declaration.full_name] = declaration
    found |= {declaration.full_name: declaration for declaration in plugs(found.values())}
    return sorted(found.values(), key=lambda declaration: (declaration.contract, declaration.name))


def find(
    targets: Iterable[str] = (), contract: str | None = None, *, root: str | Path | None = None
) -> list[Declaration]:
    """The implementations that the targets name, each once, in the order named. No targets: all that are registered.

    A target is one of

    - `attention/torch_sdpa.flash`, a registered name, without its contract where that is clear;
    - `torch_sdpa`, a file with all its variants;
    - `attention/*`, a pattern;
    - `path/to/file.py`: its decorated functions; without any, the one named as the contract, else the only public one;
    - `path/to/file.py:function` and `package.module:function`: no decorator needed;
    - `transformer/eager+TARGET`, one of attention plugged into another.

    The contract of a file or module is `contract` where given, else the folder's name where that is a contract, else
    attention. It is named after the file, or after a function that the user named, unless that is called as the
    contract is. Raises `UsageError`, one line, for what cannot be found. Nothing is imported, except the packages
    around a module that cannot be located otherwise.
    """
    known = contracts(root)
    if contract is not None and contract not in known:
        raise UsageError(f"unknown contract {contract!r}: there are {', '.join(known)}")
    registered = [d for d in discover(root) if contract in (None, d.contract)]
    targets = list(targets)
    if not targets:
        return registered
    chosen: dict[str, Declaration] = {}
    for target in targets:
        for declaration in _named(target, contract, registered, known):
            twin = chosen.setdefault(declaration.full_name, declaration)
            if (twin.file, twin.module, twin.function) != (declaration.file, declaration.module, declaration.function):
                homes = f"{twin.file or twin.module}:{twin.function} and {declaration.file or declaration.module}"
                homes += f":{declaration.function}"
                raise UsageError(f"two targets are called {declaration.full_name}: {homes}; ask them one by one")
    return list(chosen.values())


def _room(root: str | Path | None) -> tuple[Path, str]:
    """The folder with a folder per contract, and the package that it is, if it is one."""
    if root is not None:
        return Path(root).resolve(), ""
    beside = Path(__file__).resolve().parent.parent.parent / "implementations"  # in a checkout and when installed
    if beside.is_dir():
        return beside, "implementations"
    spec = find_spec("implementations")
    return Path(next(iter((spec and spec.submodule_search_locations) or ["implementations"]))), "implementations"


def _folders(home: Path) -> list[Path]:
    if not home.is_dir():
        return []
    return sorted(
        folder for folder in home.iterdir() if folder.is_dir() and folder.name.isidentifier() and folder.name[0] != "_"
    )


def _of_file(file: Path, contract: str, name: str, module: str = "") -> list[Declaration]:
    """The decorated functions of a file; what is wrong with it, if there are none."""
    whole = Declaration(contract, name, "", module, str(file))
    try:
        source = read(file)
    except Unreadable as error:
        return [replace(whole, broken=str(error))]
    if not source.decorated:
        return [replace(whole, broken="decorates no function with @implementation")]
    return _decorated(source, whole)


def _decorated(source: ModuleSource, whole: Declaration) -> list[Declaration]:
    found: dict[str, Declaration] = {}
    for function in source.decorated:
        name = ".".join(filter(None, (whole.name, function.variant)))
        declaration = _of_function(function, source, replace(whole, name=name))
        for twin in source.decorated:
            if twin is not function and (twin.name == function.name or twin.variant == function.variant):
                lines = " and ".join(map(str, sorted((twin.line, function.line))))
                declaration = replace(declaration, broken=declaration.broken or f"lines {lines} declare the same name")
        found[name] = declaration
    return list(found.values())


def _of_function(function: FunctionSource, source: ModuleSource, whole: Declaration) -> Declaration:
    """The declaration of one function, with the name and the place that `whole` gives it."""
    summaries = (function.summary, source.summary) if function.variant else (source.summary, function.summary)
    declared = {key: value for key, value in (function.declared or {}).items() if key != "variant"}
    return replace(
        whole,
        function=function.name,
        parameters=function.parameters,
        summary=summaries[0] or summaries[1],
        broken=function.problem,
        **declared,
    )


def _of_entry_point(point: EntryPoint, known: Sequence[str]) -> list[Declaration]:
    contract, slash, name = point.name.rpartition("/")
    whole = Declaration(contract if slash else DEFAULT_CONTRACT, name, "")
    try:
        whole = replace(whole, module=point.module, function=point.attr or "")
    except AttributeError:
        return [replace(whole, broken=f"the entry point's value {point.value!r} is no package.module:function")]
    if whole.contract not in known:
        return [replace(whole, broken=f"unknown contract {whole.contract!r}: there are {', '.join(known)}")]
    spec = locate(whole.module)
    if spec is None:
        return [replace(whole, broken=f"ModuleNotFoundError: No module named {whole.module!r}")]
    if not (spec.origin and Path(spec.origin).suffix == ".py"):
        return [whole] if whole.function else [replace(whole, broken="its module has no source to read")]
    if not whole.function:
        return _of_file(Path(spec.origin), whole.contract, name, whole.module)
    whole = replace(whole, file=spec.origin)
    try:
        return [_of_source(whole)]
    except UsageError as error:  # the author's mistake, not the user's
        return [replace(whole, broken=str(error))]


def _of_source(whole: Declaration) -> Declaration:
    """The declaration of the function that `whole` names, with what its source says of it."""
    try:
        source = read(Path(whole.file))
    except Unreadable as error:
        return replace(whole, broken=str(error))
    functions = [function for function in source.functions if function.name == whole.function]
    if functions:
        return _of_function(functions[-1], source, whole)
    if source.names is None or whole.function.partition(".")[0] in source.names:
        return replace(whole, summary=source.summary)  # assigned or imported there: its import will tell more
    raise UsageError(_no_function(Path(whole.file), whole.function, source))


def _named(
    target: str, contract: str | None, registered: Sequence[Declaration], known: Sequence[str]
) -> list[Declaration]:
    place, colon, function = target.rpartition(":")
    if colon and not (place and function):
        raise UsageError(f"target {target!r}: a colon stands between a file or module and a function in it")
    by_name = _registered(target, registered)
    if by_name:
        return by_name
    host, plus, plug = target.partition("+")
    if plus and (hosts := [d for d in _registered(host, registered) if takes_plug(d)]):
        attentions = [d for d in discover() if d.contract == DEFAULT_CONTRACT]
        inside = _named(plug, DEFAULT_CONTRACT, attentions, known)
        return [plugged(outside, each) for outside in hosts for each in inside]
    if colon and not place.endswith(".py") and os.sep not in place and not Path(place).is_file():
        return [_of_module(place, function, contract, known)]
    if not colon:
        place, function = target, ""
    file = Path(place).expanduser()
    if not (colon or file.suffix == ".py" or file.exists()):
        raise UsageError(_unknown(target, registered, known))
    return _of_path(file, function, contract, registered, known)


def _registered(target: str, registered: Sequence[Declaration]) -> list[Declaration]:
    """The registered implementations of this name, file or pattern. A name alone is one of attention, if it can be."""

    def matching(matches: Callable[[str], bool]) -> list[Declaration]:
        return [d for d in registered if matches(d.full_name) or matches(d.name)]

    if any(sign in target for sign in "*?["):
        return matching(lambda name: fnmatchcase(name, target))
    found = matching(lambda name: name == target) or matching(lambda name: name.startswith(f"{target}."))
    if len({d.contract for d in found}) > 1:
        if mine := [d for d in found if d.contract == "attention"]:
            return mine
        raise UsageError(
            f"target {target!r} is ambiguous: {' or '.join(sorted({d.contract + '/' + target for d in found}))}"
        )
    return found


def _unknown(target: str, registered: Sequence[Declaration], known: Sequence[str]) -> str:
    last = sorted(registered, key=lambda d: d.contract == DEFAULT_CONTRACT)  # where others have its names, it is meant
    names = {name: d.full_name for d in last if d.plug is None for name in (d.name, d.full_name)}
    close = list(dict.fromkeys(names[name] for name in get_close_matches(target, names, n=3)))
    if target in known:
        close = [f"{target}/*"]
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return f"unknown target {target!r}: {hint}registered: {', '.join(d.full_name for d in registered) or 'nothing'}"


def _of_path(
    file: Path, function: str, contract: str | None, registered: Sequence[Declaration], known: Sequence[str]
) -> list[Declaration]:
    if not file.exists():
        close = get_close_matches(file.name, [path.name for path in file.parent.glob("*.py")])
        raise UsageError(f"no file {str(file)!r}" + (f": did you mean {file.with_name(close[0])}?" if close else ""))
    if file.suffix != ".py" or not file.is_file():
        raise UsageError(f"{str(file)!r} is no Python file (.py)")
    file = file.resolve()
    shipped = [d for d in registered if d.file == str(file) and function in ("", d.function) and d.plug is None]
    if shipped:
        return shipped
    if contract is None:
        contract = file.parent.name if file.parent.name in known else DEFAULT_CONTRACT
    whole = Declaration(contract, file.stem, function, "", str(file), named=bool(function))
    try:
        source = read(file)
    except Unreadable as error:
        return [replace(whole, broken=str(error))]
    if not function and source.decorated:
        return _decorated(source, whole)
    if not function:
        return [_of_function(_the_one(source, file, contract), source, whole)]
    return [_of_source(_called(whole, source))]


def _the_one(source: ModuleSource, file: Path, contract: str) -> FunctionSource:
    """The function that a file without decorators must mean."""
    called = [function for function in source.public if function.name == contract]
    candidates = called or source.public
    if len(candidates) == 1:
        return candidates[0]
    names = [function.name for function in source.public]
    choice = f"has {_listed(names)}: name one, as {file.name}:{names[0]}" if names else "has no public function"
    raise UsageError(f"{file.name} decorates no function with @implementation and {choice}")


def _of_module(module: str, function: str, contract: str | None, known: Sequence[str]) -> Declaration:
    *packages, name = module.split(".")
    if not all(part.isidentifier() for part in (*packages, name)):
        raise UsageError(f"{module!r} is neither a file (.py) nor the name of a module")
    if contract is None:
        contract = packages[-1] if packages and packages[-1] in known else DEFAULT_CONTRACT
    whole = Declaration(contract, name, function, module, named=True)
    with on_path(Path.cwd()):
        spec = locate(module)
    if spec is None:
        return _of_unlocated(whole)
    if not (spec.origin and Path(spec.origin).suffix == ".py"):
        return _called(whole, None)
    whole = replace(whole, file=spec.origin)
    try:
        source = read(Path(spec.origin))
    except Unreadable as error:
        return replace(whole, broken=str(error))
    return _of_source(_called(whole, source))


def _of_unlocated(whole: Declaration) -> Declaration:
    """A module that no path leads to: a package may make it as it is imported, as `os` makes `os.path`."""
    return replace(_called(whole, None), broken=getattr(load(whole), "reason", ""))


def _called(whole: Declaration, source: ModuleSource | None) -> Declaration:
    """Named as its decorator says, else after the function, unless that is called as the contract is."""
    for function in source.decorated if source else ():
        if function.name == whole.function:
            return replace(whole, name=".".join(filter(None, (whole.name, function.variant))))
    function_name = whole.function.rpartition(".")[2]
    return whole if function_name == whole.contract else replace(whole, name=function_name)


def _no_function(file: Path, function: str, source: ModuleSource) -> str:
    names = [known.name for known in source.public]
    close = get_close_matches(function, names)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{file.name} has no function {function!r}: {hint}it has {_listed(names) or 'none'}"


def _listed(names: Iterable[str], most: int = 12) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
