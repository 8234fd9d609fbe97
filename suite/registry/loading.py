"""Importing an implementation without letting it disturb the others."""

import dis
import importlib
import inspect
import operator
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.registry.backends import PARAMETER, with_backend
from attnsuite.registry.callables import as_callable
from attnsuite.registry.calls import adapt, library_of, parameters, with_signature
from attnsuite.registry.declaration import Broken, Declaration, Loaded, Missing, Uncallable, declared_by
from attnsuite.registry.files import comes_from, imported_names, locate, module_of_file, on_path
from attnsuite.registry.naming import refuse_other_layers
from attnsuite.registry.roles import listed
from attnsuite.registry.side_effects import preserve_process_state, silence
from attnsuite.registry.signatures import AmbiguousSignature
from attnsuite.registry.source import MAX_LISTED, UNDECORATED, syntax_tree

UNLESS_SET = {"ORT_DISABLE_TELEMETRY": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Environment variables for libraries that implementations import, unless the user has set them. onnxruntime (1.29 and
later) then starts no thread that reports sessions, and JAX does not reserve three quarters of a GPU's memory."""
NUMPY_ALONE = "the file imports numpy and not torch: say --signature numpy for a function of its arrays"
"""A hint where the parameters fit several signatures."""
SWALLOWED = "; an import may have failed, and the file caught the error"
INSTEAD = "; bind {name} to a function, or name another: {file}:FUNCTION"
BY_ITSELF = "; a file is imported by itself, without its package: name its module, as package.module:function"
"""A hint after a relative import."""
NOT_OWN, PACKAGES = (
    ("<", str(Path(__file__).parents[1]), str(Path(os.__file__).parent)),
    {"site-packages", "dist-packages"},
)
"""How the files of the suite and of Python's library begin, and folders of installed ones: not those of an author."""
KERNELBENCH = "ModelNew"
"""The class of a submission to KernelBench, whose file also has functions that make inputs."""


def load(declaration: Declaration, *, alone: bool = False) -> Loaded | Missing | Broken:
    """Import an implementation. It is `Missing` if a library that it requires is, `Broken` if the import raises.

    What it prints is discarded, and what it changes in the process is undone (`preserve_process_state`). With `alone`
    it has the process to itself: its prints stay, and its folder stays on the path. Raises `UsageError` for a user's
    module, file or function that does not exist or cannot be tested.
    """
    if declaration.broken:
        return Broken(declaration, declaration.broken)
    for name, value in UNLESS_SET.items():
        os.environ.setdefault(name, value)
    if missing := missing_library(declaration):
        return missing
    if declaration.backend is not None:
        return _load_with_backend(declaration, declaration.backend, alone)
    problem = ""
    with nullcontext() if alone else silence(), preserve_process_state(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            declaration, function = _function(declaration)
        except (KeyboardInterrupt, UsageError):
            raise
        except BaseException as error:  # SystemExit and pytest's Skipped too
            problem = raised(error)
            problem += BY_ITSELF * ("no known parent package" in problem)
    if alone:
        folder = str(Path.cwd() if declaration.module else Path(declaration.file).resolve().parent)
        sys.path.extend([folder] * (folder not in sys.path))
    if problem:
        return Broken(declaration, problem)
    try:
        declaration = _completed(declaration, function)
        refuse_other_layers(declaration, function)
        declaration, function = adapt(declaration, function)
    except (AmbiguousSignature, Uncallable) as error:
        if not declaration.own:
            return Broken(declaration, str(error).partition("\n")[0])
        imported = imported_names(Path(declaration.file).read_bytes()) if declaration.file else []
        is_numpy = isinstance(error, AmbiguousSignature) and "numpy" in imported and "torch" not in imported
        raise UsageError(f"{declaration.full_name}: {error}{f'; {NUMPY_ALONE}' * is_numpy}") from None
    return missing_library(declaration) or Loaded(declaration, function)


def _load_with_backend(declaration: Declaration, backend: Declaration, alone: bool) -> Loaded | Missing | Broken:
    """A host with its backend; it also lacks what the backend lacks."""
    inside = load(backend, alone=alone)
    if not isinstance(inside, Loaded):
        return replace(inside, declaration=declaration)
    name = declaration.name.removesuffix(f"+{backend.name}")
    host = load(replace(declaration, name=name, backend=None), alone=alone)
    if not isinstance(host, Loaded):
        return replace(host, declaration=declaration)
    if host.declaration.own and host.declaration.parameters and PARAMETER not in host.declaration.parameters:
        raise UsageError(f"{host.declaration.full_name} takes no parameter {PARAMETER!r}")
    whole = with_backend(host.declaration, inside.declaration)
    style = "; ".join(filter(None, (host.declaration.conversion, inside.declaration.conversion)))
    return Loaded(replace(whole, conversion=style), partial(host.function, **{PARAMETER: as_backend(inside)}))


def as_backend(attention: Loaded) -> Callable[..., Any]:
    """The function that its host calls: it returns the output alone, also where the attention returns its weights."""
    from attnsuite.cases.returned_weights import returning_output

    is_ours = attention.declaration.module.startswith("attnsuite.implementations.")
    return attention.function if is_ours else returning_output(attention.function)


def missing_library(declaration: Declaration) -> Missing | None:
    """The first library that it or its signature needs and that is not installed; or None. Imports nothing."""
    for library in filter(None, (*declaration.requires, library_of(declaration))):
        if locate(library) is None:
            return Missing(declaration, f"No module named {library!r}")
    return None


def from_function(
    function: Callable[..., Any],
    contract: str = "attention",
    name: str = "",
    signature: str = "",
    weights: Mapping[str, str] | None = None,
) -> Loaded:
    """The record of a function of this process. It names a module or file only if a worker can import it there.

    A class or a module is converted, as on the command line. UsageError where it cannot be called, or where its
    parameters fit several signatures and `signature` names none.
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
        declared = declared_by(function)
        if declared and source:
            name = ".".join(filter(None, (Path(source).stem, declared["variant"])))
    try:
        whole = Declaration(contract, name, qualified, module, source, weights=weights or {})
        converted, declaration = as_callable(function, name, whole)
    except Uncallable as error:
        raise UsageError(str(error)) from None
    declaration = with_signature(declaration, signature)
    try:
        declaration, called = adapt(_completed(declaration, converted), converted)
    except (AmbiguousSignature, Uncallable) as error:
        raise UsageError(f"{declaration.full_name}: {error}") from None
    if missing := missing_library(
        replace(declaration, requires=())
    ):  # the function exists; the library of its arrays may not
        raise UsageError(f"{declaration.full_name} is missing: {missing}")
    return Loaded(declaration, called)


def in_one_line(error: BaseException) -> str:
    """`ValueError: its message`, in one line of UTF-8, even if the error's own methods raise."""
    try:
        text = " ".join(str(error).split()).encode(errors="backslashreplace").decode()
    except Exception:
        text = "(its message cannot be printed)"
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:2000]


def raised(error: BaseException) -> str:
    """`KeyError: 'scale' (mine.py, line 5)`: the error that is being handled, and the innermost line of its author."""
    frames = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(sys.exc_info()[2]))
    own = [(file, line) for file, line in frames if not file.startswith(NOT_OWN) and not PACKAGES & {*Path(file).parts}]
    if not own or isinstance(error, SyntaxError):  # whose message has a place
        return in_one_line(error)
    name = Path(own[-1][0]).name.encode(errors="backslashreplace").decode()
    return f"{in_one_line(error)} ({name}, line {own[-1][1]})"


@contextmanager
def as_usage_error(what: str) -> Iterator[None]:
    """Raise an error of a submission, SystemExit too, as a UsageError: `what`, and the error in one line.

    KeyboardInterrupt and UsageError pass through.
    """
    try:
        yield
    except (KeyboardInterrupt, UsageError):
        raise
    except BaseException as error:
        raise UsageError(f"{what} {in_one_line(error)}") from error


def _function(declaration: Declaration) -> tuple[Declaration, Any]:
    """The function that tests call, and the declaration with its name and conversion.

    Raises UsageError where the user named it and can repair it, and other errors for registered implementations.
    """
    module = _module(declaration)
    is_chosen = not declaration.function
    if is_chosen:
        name = chosen(module, Path(declaration.file), declaration.contract)
        declaration = replace(declaration, function=name, guessed=name != declaration.contract)
    name, home = declaration.function, Path(declaration.file or declaration.module).name
    try:
        function = _attribute(module, name)
    except AttributeError:
        message = f"{home} has no function {name!r}{_others(module, declaration)}"
        raise (UsageError(message) if declaration.own else AttributeError(message)) from None
    if not callable(function):
        kind = "None" if function is None else f"of type {type(function).__name__}"
        kind += SWALLOWED if function is None else ""
        message = f"{name!r} in {home} cannot be called: it is {kind}"
        message += INSTEAD.format(name=name, file=home) if is_chosen else ""
        raise (UsageError(message) if declaration.own else TypeError(message))
    try:
        converted, declaration = as_callable(function, name, declaration)
    except Uncallable as error:
        raise (UsageError(str(error)) if declaration.own else TypeError(str(error))) from None
    return declaration, converted


def _others(module: ModuleType, declaration: Declaration) -> str:
    """The functions of a module that does not have the named one, and the closest name."""
    names = candidates(module, declaration.contract)
    close = get_close_matches(declaration.function, names, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f": {hint}it has {listed(names, MAX_LISTED)}" if names else ""


def _attribute(module: ModuleType | None, dotted: str) -> Any:
    return operator.attrgetter(dotted)(module)


def _module(declaration: Declaration) -> ModuleType:
    importlib.invalidate_caches()
    name = declaration.module
    with on_path(Path.cwd()):
        if name and (not declaration.file or comes_from(name, declaration.file)):
            try:
                return importlib.import_module(name)
            except ModuleNotFoundError as error:
                if declaration.named and f"{name}.".startswith(f"{error.name}."):
                    raise UsageError(str(error)) from error
                raise
    return module_of_file(Path(declaration.file).resolve())


def _completed(declaration: Declaration, function: Callable[..., Any]) -> Declaration:
    """The declaration, completed from the function: decorator and parameters."""
    if declared := declared_by(function):
        declaration = replace(declaration, **{key: declared[key] for key in ("requires", "lacks", "conventions")})
        if not declaration.signature:
            named = {key: declared[key] for key in ("signature", "signature_by") if declared.get(key)}
            declaration = replace(declaration, **named)
    if declaration.parameters is not None:
        return declaration
    return replace(declaration, parameters=parameters(function))


# The object of a file that is tested where the user names none


def chosen(module: ModuleType, file: Path, contract: str) -> str:
    """The name of the object to test: the contract's name if bound, else that of the only candidate.

    UsageError, in one line, without a candidate or with several.
    """
    if hasattr(module, contract):
        return contract
    if isinstance(getattr(module, KERNELBENCH, None), type):
        return KERNELBENCH
    code = compile(syntax_tree(file.read_bytes()), str(file), "exec")
    if contract in _names(code, ("STORE_NAME", "STORE_GLOBAL")):
        instead = INSTEAD.format(name=contract, file=file.name)
        raise UsageError(f"{file.name} binds no {contract} when it is imported{instead}")
    names = candidates(module, contract)
    if others := [name for name in names if name in contract_names()]:
        raise UsageError(f"{file.name} binds no {contract}, but {others[0]}: name it, as {file.name}:{others[0]}")
    if len(names) == 1:
        return names[0]
    if names:
        raise UsageError(
            f"{file.name} {UNDECORATED} and has {listed(names, MAX_LISTED)}: name one, as {file.name}:{names[0]}"
        )
    raise UsageError(f"{file.name} has no function to test: define one")


def candidates(module: ModuleType, contract: str) -> list[str]:
    """The public names of a module that may be tested: functions and callable objects, else classes.

    Contracts of models test what a factory makes, so that a callable object is no candidate.
    """
    public = {name: value for name, value in vars(module).items() if name[0] != "_" and callable(value)}
    own = {name: value for name, value in public.items() if _home(value) == module.__name__}
    functions = {name: value for name, value in own.items() if not isinstance(value, type)}
    if contract_named(contract).is_model:
        functions = {name: value for name, value in functions.items() if inspect.isroutine(value)}
    made = {
        name: value for name, value in public.items() if not isinstance(value, type) and not _is_foreign(name, value)
    }
    chosen = functions or made or {name: value for name, value in own.items() if isinstance(value, type)}
    names: dict[int, str] = {}
    for name, value in chosen.items():
        names.setdefault(id(value), name)  # the first of two names
    return list(names.values())


def _home(value: Any) -> str:
    """The module that made a function, a class, or the class of an object."""
    try:
        return str(getattr(value, "__module__", None) or "")
    except Exception:  # whatever its __getattr__ raises
        return ""


def _is_foreign(name: str, value: Any) -> bool:
    """Whether a value is another module's, under its own name or this one."""
    home = sys.modules.get(_home(value))
    return inspect.isbuiltin(value) or getattr(home, getattr(value, "__name__", name), None) is value


def _names(code: CodeType, operations: tuple[str, ...]) -> Iterator[str]:
    """The names that statements of a file may bind, with those that a function declares global."""
    yield from (instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in operations)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner, ("STORE_GLOBAL",))
