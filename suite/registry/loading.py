"""Importing an implementation without letting it disturb the others."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from attnsuite.model import UsageError
from attnsuite.registry.calls import parameters
from attnsuite.registry.declaration import Broken, Declaration, Loaded, Missing
from attnsuite.registry.reading import read, syntax_tree
from attnsuite.registry.side_effects import diverted, undisturbed
from attnsuite.registry.signatures import Ambiguous
from attnsuite.registry.signing import adapt, asked_in, library_of
from attnsuite.registry.styles import Unfit, styled

INSTALLED = ("site-packages", "dist-packages")
"""The names of folders into which packages are installed. Packages there have nothing to do with each other."""

OWN_PACKAGES = ("attnsuite", "suite")
"""The suite's own package, by its name and by its folder's name in a checkout; the suite has a hash of its own."""
SHIPPED = "attnsuite.implementations."
"""How modules that ship begin. Their folder lies beside `suite/` in a checkout, inside the package when installed."""

UNLESS_SET = {"ORT_DISABLE_TELEMETRY": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Variables that are set for libraries which implementations import, unless the user has set them: with them
onnxruntime (1.29 and later) starts no thread that reports every session to its makers, and JAX does not take three
quarters of a GPU's memory for itself when it starts."""

_neighbours: dict[str, Path] = {}
"""The modules that submissions imported from their own folder, by name, and that folder."""


def load(declaration: Declaration, *, alone: bool = False) -> Loaded | Missing | Broken:
    """Import an implementation. It is `Missing` if a library that it requires is, `Broken` if the import raises.

    What it prints is kept, and what it changes in the process (see `undisturbed`) is undone. With `alone` it has the
    process to itself: its prints are not caught, and its folder stays on the path. Raises `UsageError` if the user
    named a module or function that does not exist.
    """
    if declaration.broken:
        return Broken(declaration, declaration.broken)
    for name, value in UNLESS_SET.items():
        os.environ.setdefault(name, value)
    missing = absent(declaration)
    if missing is not None:
        return missing
    plug = load(declaration.plug, alone=alone) if declaration.plug else None
    if isinstance(plug, Missing | Broken):
        return replace(plug, declaration=declaration)
    problem = said = ""
    function: Any = None
    with diverted(not alone) as printed, undisturbed(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function, said = _function(declaration)
        except (KeyboardInterrupt, UsageError):
            raise
        except BaseException as error:  # SystemExit and pytest's Skipped too
            problem = in_one_line(error) + _beside_a_package(declaration, error)
    if alone:
        _keep_on_path(declaration)
    if problem:
        return Broken(declaration, problem, printed())
    if plug is not None:  # what it lacks is the plug's as well as its own: `plugged` has completed it
        given = {plug.declaration.contract: as_plug(plug)}
        said = "; ".join(filter(None, (said, plug.declaration.style)))
        return Loaded(replace(declaration, style=said), partial(function, **given), printed())
    try:
        declaration, function = adapt(_completed(replace(declaration, style=said), function), function)
    except (Ambiguous, Unfit) as error:
        if declaration.named or not declaration.module:
            raise UsageError(f"{declaration.full_name}: {error}") from None
        return Broken(declaration, str(error).partition("\n")[0], printed())
    return absent(declaration) or Loaded(declaration, function, printed())


def _beside_a_package(declaration: Declaration, error: BaseException) -> str:
    """What to do about a relative import in a file: by its path a file is imported alone, without its package."""
    if not declaration.file or not isinstance(error, ImportError) or "no known parent package" not in str(error):
        return ""
    path = Path(declaration.file).resolve()
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").exists():
        names, folder = [folder.name, *names], folder.parent
    if len(names) == 1:
        alone = "and no package is around this one: import its neighbours without the dot"
        return f"; a file is imported by itself, {alone}"
    module = f"{'.'.join(names)}, from a place where {names[0]} can be imported"
    return f"; a file is imported by itself: name the module, {module}"


def as_plug(plug: Loaded) -> Callable[..., Any]:
    """What its host calls: somebody else's attention may return its weights too, which a host does not expect."""
    from attnsuite.cases.returned_weights import returning_output

    return (
        plug.function
        if plug.declaration.module.startswith("attnsuite.implementations.")
        else returning_output(plug.function)
    )


def absent(declaration: Declaration) -> Missing | None:
    """The first library that it or its signature needs and that is not installed; or None. Nothing is imported."""
    for library in filter(None, (*declaration.requires, library_of(declaration))):
        if locate(library) is None:
            return Missing(declaration, f"No module named {library!r}")
    return None


def from_function(
    function: Callable[..., Any], contract: str = "attention", name: str = "", signature: str = ""
) -> Loaded:
    """The record of a function at hand. It names a module or file only if a worker can import the function there.

    A class or a module will do as well, as on the command line; UsageError where it cannot be called, or where its
    parameters fit several signatures and none is named.
    """
    module = getattr(function, "__module__", None) or ""
    qualified = getattr(function, "__qualname__", "")
    spec = locate(module) if module and qualified else None
    source = getattr(sys.modules.get(module), "__file__", None) or ""
    importable = False
    with suppress(AttributeError):
        importable = bool(source or spec) and function is _attribute(sys.modules.get(module), qualified)
    if not importable or module == "__main__":
        module, qualified, source = "", "", ""
    elif spec is None:
        module = ""  # a file that was imported by its path; a worker imports it so, too
    if not name:
        name = getattr(function, "__name__", type(function).__name__)
        declared = _noted(function)
        if declared is not None and source:
            name = ".".join(filter(None, (Path(source).stem, declared["variant"])))
    try:
        found = styled(function, name, contract)
    except Unfit as error:
        raise UsageError(str(error)) from None
    declaration = asked_in(Declaration(contract, name, qualified, module, source, style=found.said), signature)
    try:
        declaration, called = adapt(_completed(declaration, found.function), found.function)
    except (Ambiguous, Unfit) as error:
        raise UsageError(f"{declaration.full_name}: {error}") from None
    if missing := absent(replace(declaration, requires=())):  # it is here: only its arrays' library may not be
        raise UsageError(f"{declaration.full_name} is missing: {missing}")
    return Loaded(declaration, called)


def source_hash(declaration: Declaration) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of an implementation's file and those beside it that it imports.

    An attention that is plugged in counts as well. Empty if there is no file.
    """
    files = [declaration.file, *([declaration.plug.file] if declaration.plug else [])]
    found: dict[Path, bytes] = {}
    try:
        for file in files:
            _read_with_imports(Path(file), found)
        return hashlib.sha256(b"".join(found.values())).hexdigest()[:12]
    except OSError:
        return ""


def _read_with_imports(file: Path, found: dict[Path, bytes]) -> None:
    """Add the bytes of a file, and of the files that it imports from its own folder or the two above it.

    Files of the suite are left out, and, if the folder is one of INSTALLED, files of other packages.
    """
    file = file.resolve()
    if file in found:
        return
    found[file] = file.read_bytes()
    with suppress(SyntaxError, ValueError):
        for names, level in _imported(found[file]):
            homes = [file.parents[level - 1]] if level else file.parents[:3]
            for name, home in product(filter(None, names), homes):
                path_name = name.removeprefix("attnsuite.") if name.startswith(SHIPPED) else name
                first = path_name.partition(".")[0]
                installed = home.name in INSTALLED and first != file.relative_to(home).parts[0]
                path = home.joinpath(*path_name.split(".")).with_suffix(".py")
                if first not in OWN_PACKAGES and not installed and path.is_file():
                    _read_with_imports(path, found)


@lru_cache(maxsize=512)  # one file is read for many implementations, and at many commits
def _imported(source: bytes) -> tuple[tuple[tuple[str, ...], int], ...]:
    """What a source imports: names, and how many folders up these are; 0 for those that are found on the path."""
    found = []
    for node in ast.walk(syntax_tree(source)):
        if isinstance(node, ast.ImportFrom):
            names = [".".join(filter(None, (node.module, each.name))) for each in node.names] + [node.module or ""]
            found.append((tuple(names), node.level))
        elif isinstance(node, ast.Import):
            found.append((tuple(each.name for each in node.names), 0))
    return tuple(found)


def locate(module: str) -> ModuleSpec | None:
    """The place a module would be imported from, found without importing it or the packages around it."""
    importlib.invalidate_caches()
    first, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):  # ValueError: it is in sys.modules, but has no spec
        return None
    path = first
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path += f".{part}"
        spec = PathFinder.find_spec(path, list(spec.submodule_search_locations))
    return spec


@contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """Put the folder at the end of sys.path, so that its modules can be imported and shadow no others."""
    before = list(sys.path)
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


def in_one_line(error: BaseException) -> str:
    """`ValueError: its message`, in one line, even if the error's own methods raise."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "(its message cannot be printed)"
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:2000]


@contextmanager
def told(what: str) -> Iterator[None]:
    """What a stranger's code raises inside, SystemExit too, becomes a UsageError: `what`, and the error in one line.

    KeyboardInterrupt, which is the user's, and a UsageError pass through.
    """
    try:
        yield
    except (KeyboardInterrupt, UsageError):
        raise
    except BaseException as error:  # whatever a submission raises is its answer
        raise UsageError(f"{what} {in_one_line(error)}") from error


def _function(declaration: Declaration) -> tuple[Any, str]:
    """What is called, and what was made of the target so that it can be."""
    module, name = _module(declaration), declaration.function
    home = Path(declaration.file or declaration.module).name
    own = declaration.named or not declaration.module  # a file or function of a user's, who can mend it at once
    try:
        function = _attribute(module, name)
    except AttributeError:
        if own and not declaration.named:
            raise UsageError(f"{home} binds no {name} when it is imported; {_instead(declaration)}") from None
        message = f"{home} has no function {name!r}"
        raise (UsageError(message) if own else AttributeError(message)) from None
    if declaration.guessed:
        _refuse_another(module, declaration, function)
    if not callable(function):
        kind = "None" if function is None else f"of type {type(function).__name__}"
        message = f"{name!r} in {home} cannot be called: it is {kind}"
        message += "" if declaration.named or not own else f"; {_instead(declaration)}"
        raise (UsageError(message) if own else TypeError(message))
    try:
        found = styled(function, name, declaration.contract)
    except Unfit as error:
        raise (UsageError(str(error)) if own else TypeError(str(error))) from None
    return found.function, found.said


def _refuse_another(module: ModuleType, declaration: Declaration, function: object) -> None:
    """Raise UsageError where the import has bound the contract's name, which no statement shows, to something else."""
    if getattr(module, declaration.contract, function) is not function:
        home, named = Path(declaration.file).name, (declaration.contract, declaration.function)
        choice = " or ".join(f"{home}:{each}" for each in named)
        raise UsageError(f"{home} binds {named[0]} when it is imported, and defines {named[1]}: name one, {choice}")


def _instead(declaration: Declaration) -> str:
    """What to do about a name that a file binds to nothing that can be called."""
    file, name = Path(declaration.file), declaration.function
    others = (each.name for each in read(file).public if each.name != name and not each.name.startswith("_"))
    other = next(others, "FUNCTION")
    return f"bind {name} to a function, or name another: {file.name}:{other}"


def _attribute(module: ModuleType | None, dotted: str) -> Any:
    found: Any = module
    for name in dotted.split("."):
        found = getattr(found, name)
    return found


def _module(declaration: Declaration) -> ModuleType:
    importlib.invalidate_caches()
    name = declaration.module
    with on_path(Path.cwd()):
        if name and (not declaration.file or _comes_from(name, declaration.file)):
            try:
                return importlib.import_module(name)
            except ModuleNotFoundError as error:
                if declaration.named and f"{name}.".startswith(f"{error.name}."):
                    raise UsageError(str(error)) from error
                raise
    return _module_of_file(Path(declaration.file).resolve())


def _comes_from(module: str, file: str) -> bool:
    """Whether importing this name gives this file: another module of that name may come first on the path."""
    spec = locate(module)
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == Path(file).resolve()


class _FromSource(SourceFileLoader):
    """Compiles the source as it is now, and writes no bytecode into the submitter's folder."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)


def module_name(file: Path) -> str:
    """The name of the module that a file becomes."""
    return f"attnsuite_file_{hashlib.sha256(os.fsencode(file)).hexdigest()[:12]}_{file.stem.replace('.', '_')}"


def _module_of_file(file: Path) -> ModuleType:
    source, name = hashlib.sha256(file.read_bytes()).hexdigest(), module_name(file)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__attnsuite_source__", "") == source:
        return known
    spec = importlib.util.spec_from_file_location(name, file, loader=_FromSource(name, str(file)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _neighbourhood(file.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    module.__attnsuite_source__ = source  # type: ignore[attr-defined]
    return module


@contextmanager
def _neighbourhood(folder: Path) -> Iterator[None]:
    """Let a file import modules from its own folder; those of the same name from another folder are forgotten."""
    for name, home in list(_neighbours.items()):
        if home != folder and ((folder / name).is_dir() or (folder / f"{name}.py").exists()):
            for module in [module for module in sys.modules if f"{module}.".startswith(f"{name}.")]:
                del sys.modules[module]
            del _neighbours[name]
    before = set(sys.modules)
    try:
        with on_path(folder):
            yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if "." not in name and file and folder in Path(file).parents and not name.startswith("attnsuite_file_"):
                _neighbours[name] = folder


def _keep_on_path(declaration: Declaration) -> None:
    folders = [Path.cwd()] if declaration.module else [Path(declaration.file).resolve().parent]
    sys.path.extend(str(folder) for folder in folders if str(folder) not in sys.path)


def _noted(function: Callable[..., Any]) -> Any:
    """What `@implementation` noted on a function; None where there is nothing, or its attributes cannot be asked."""
    try:
        return getattr(function, "__attnsuite__", None)
    except Exception:  # whatever its __getattr__ raises
        return None


def _completed(declaration: Declaration, function: Callable[..., Any]) -> Declaration:
    """The declaration, completed from the function: decorator and parameters."""
    declared = _noted(function)
    if isinstance(declared, dict):
        declaration = replace(declaration, **{key: declared[key] for key in ("requires", "lacks", "conventions")})
        if not declaration.signature:
            said = {key: declared.get(key, "") for key in ("signature", "signature_by") if declared.get(key)}
            declaration = replace(declaration, **said)
    if declaration.parameters is not None:
        return declaration
    return replace(declaration, parameters=parameters(function))
