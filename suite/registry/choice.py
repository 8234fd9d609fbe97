"""The object of an imported file that is tested where the user names none."""

import dis
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.registry.files import imported_names, locate, on_path
from attnsuite.registry.source import UNDECORATED, listed, makes_models, syntax_tree

KERNELBENCH = "ModelNew"
"""The class of a submission to KernelBench, whose file also has functions that make inputs."""


def chosen(module: ModuleType, file: Path, contract: str) -> str:
    """The name of the object to test: the contract's name if bound, else that of the only candidate.

    UsageError, in one line, without a candidate or with several.
    """
    if hasattr(module, contract):
        return contract
    if isinstance(getattr(module, KERNELBENCH, None), type):
        return KERNELBENCH
    if contract in _bound_by(file):
        raise UsageError(f"{file.name} binds no {contract} when it is imported; {instead(module, file, contract)}")
    names = candidates(module, contract)
    if others := [name for name in names if name in contract_names()]:
        raise UsageError(f"{file.name} binds no {contract}, but {others[0]}: name it, as {file.name}:{others[0]}")
    if len(names) == 1:
        return names[0]
    if names:
        raise UsageError(f"{file.name} {UNDECORATED} and has {listed(names)}: name one, as {file.name}:{names[0]}")
    raise UsageError(f"{file.name} has no function to test: define one")


def candidates(module: ModuleType, contract: str) -> list[str]:
    """The public names of a module that may be tested: functions and callable objects, else classes.

    Contracts of models test what a factory makes, so that a callable object is no candidate.
    """
    public = {name: value for name, value in vars(module).items() if name[0] != "_" and callable(value)}
    own = {name: value for name, value in public.items() if _home(value) == module.__name__}
    functions = {name: value for name, value in own.items() if not isinstance(value, type)}
    if makes_models(contract):
        functions = {name: value for name, value in functions.items() if inspect.isroutine(value)}
    made = {
        name: value for name, value in public.items() if not isinstance(value, type) and not _is_foreign(name, value)
    }
    chosen = functions or made or {name: value for name, value in own.items() if isinstance(value, type)}
    names: dict[int, str] = {}
    for name, value in chosen.items():
        names.setdefault(id(value), name)  # the first of two names
    return list(names.values())


def instead(module: ModuleType, file: Path, name: str) -> str:
    """What to do where a file binds a name to an object that cannot be called."""
    others = [other for other in candidates(module, name) if other != name] or ["FUNCTION"]
    return f"bind {name} to a function, or name another: {file.name}:{others[0]}"


def why_none(file: Path) -> str:
    """The likely cause of a name bound to `None`: an import failed, and the file caught the error."""
    with on_path(file.parent):
        missing = [name for name in imported_names(file.read_bytes()) if locate(name) is None]
    which = f" ({missing[0]} is not installed)" if missing else ""
    return f"None; an import may have failed, and the file caught the error{which}"


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


def _bound_by(file: Path) -> frozenset[str]:
    """The names that statements of a file may bind, with those that a function declares global."""
    code = compile(syntax_tree(file.read_bytes()), str(file), "exec")
    return frozenset(_names(code, ("STORE_NAME", "STORE_GLOBAL")))


def _names(code: CodeType, operations: tuple[str, ...]) -> Iterator[str]:
    yield from (instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in operations)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner, ("STORE_GLOBAL",))
