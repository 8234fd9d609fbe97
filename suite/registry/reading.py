"""What a Python file declares, read from its source without importing it."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attnsuite.registry.assignments import METHODS, AssignedSource, assigned
from attnsuite.registry.bindings import bound, imported, is_open
from attnsuite.registry.declaration import checked

HOMES = ("attnsuite", "attnsuite.registry")
"""The modules that have the decorator."""

_one_at_a_time = threading.Lock()
"""CPython 3.11 miscounts the depth of recursion if two threads parse at once (python/cpython#106905)."""


@dataclass(frozen=True)
class FunctionSource:
    """One function of a module, or a class. `declared` holds the decorator's arguments; None if it is not decorated."""

    name: str
    line: int
    parameters: tuple[str, ...] | None
    summary: str
    declared: dict[str, Any] | None = None
    problem: str = ""
    """Why the decorator's arguments cannot be read, or empty."""
    is_class: bool = False
    """A class, whose `parameters` are those of its instances; None where the source does not show them."""
    most: int | None = None
    """How many arguments it takes by place; None where any number, or where the source does not show it."""
    required: tuple[str, ...] = ()
    """Its parameters without a default, as far as the source shows them."""

    @property
    def variant(self) -> str | None:
        return self.declared["variant"] if self.declared else None

    @property
    def contract(self) -> str | None:
        """The contract that its decorator names."""
        return self.declared["contract"] if self.declared else None


@dataclass(frozen=True)
class ModuleSource:
    """The contents of a module. `bound` are the names that its statements bind when it is imported."""

    summary: str
    functions: tuple[FunctionSource, ...]
    bound: frozenset[str] = frozenset()
    is_open: bool = True
    """Whether an import may bind names that no statement shows: by `*`, `__getattr__`, `globals()` or `exec`."""
    problem: str = ""
    """Why the file cannot be read as Python, in one line that says where; or empty."""
    deferred: tuple[str, ...] = ()
    """The names of its async functions, which compute nothing when they are called."""
    assigned: tuple[AssignedSource, ...] = ()
    """The public names that it binds to what may be called, beside its functions and classes."""
    imports: frozenset[str] = frozenset()
    """The first names of the modules that it imports: `torch` of `torch.nn`."""

    @property
    def decorated(self) -> tuple[FunctionSource, ...]:
        return tuple(function for function in self.functions if function.declared is not None or function.problem)

    def contract_of(self, name: str) -> str | None:
        """The contract that the decorator of the function of this name says."""
        return next((each.contract for each in self.decorated if each.name == name), None)

    @property
    def public(self) -> tuple[FunctionSource, ...]:
        """The functions that are no helpers; where there is none, the classes."""
        known = [function for function in self.functions if not function.name.startswith("_")]
        return tuple(function for function in known if not function.is_class) or tuple(known)


def read(file: Path) -> ModuleSource:
    """Read a file's functions and names. If it cannot be read as Python, its `problem` says why."""
    try:
        return _parsed(file.read_bytes(), file)
    except OSError as error:
        return _unreadable(error, file)


def line_of(file: Path, function: str) -> int:
    """The line at which a function or a class begins; 0 where the source does not show it."""
    name = function.partition(".")[0]
    return max((each.line for each in read(file).functions if each.name == name), default=0)


def syntax_tree(source: bytes, name: str = "<unknown>") -> ast.Module:
    """The tree of a source, without its warnings, for one thread after the other. Raises as `ast.parse` does."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, name)


@cache  # one command finds what is registered several times
def _parsed(source: bytes, file: Path) -> ModuleSource:
    try:
        tree = syntax_tree(source, str(file))
    except SyntaxError as error:
        return ModuleSource("", (), problem=f"SyntaxError: {error.msg} ({file.name}, line {error.lineno})")
    except (ValueError, RecursionError, MemoryError) as error:
        return _unreadable(error, file)
    statements = list(_statements(tree.body))
    decorators = _decorators(statements)
    names = bound(statements, tree, source)
    return ModuleSource(
        summary=_first_line(tree),
        functions=tuple(_function(node, decorators) for node in statements if isinstance(node, CALLED)),
        bound=names,
        is_open=is_open(names, tree, source),
        deferred=tuple(node.name for node in statements if isinstance(node, ast.AsyncFunctionDef)),
        assigned=assigned(statements),
        imports=frozenset(imported(statements)),
    )


def _unreadable(error: Exception, file: Path) -> ModuleSource:
    return ModuleSource("", (), problem=f"{type(error).__name__}: {error} ({file.name})".replace("\n", " "))


NOT_IMPORTED = ("__name__ == '__main__'", "'__main__' == __name__", "TYPE_CHECKING", "typing.TYPE_CHECKING")
"""Conditions that are false when a file is imported."""


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported, also those under `if`, `try`, `with` and `match`."""
    for statement in body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) in NOT_IMPORTED:
            yield from _statements(statement.orelse)
            continue
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for block in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, block, []))
        for inner in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
            yield from _statements(inner.body)


def _decorators(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """The names under which this module knows the decorator: `implementation`, `attnsuite.implementation`."""
    names = set()
    for node in statements:
        if isinstance(node, ast.ImportFrom) and node.module in HOMES:
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "implementation"}
        elif isinstance(node, ast.Import):
            names |= {f"{alias.asname or alias.name}.implementation" for alias in node.names if alias.name in HOMES}
    return frozenset(names)


CALLED = ast.FunctionDef | ast.ClassDef
"""What can be called, or makes what can be."""


def _function(node: ast.FunctionDef | ast.ClassDef, decorators: frozenset[str]) -> FunctionSource:
    declared, problem = None, ""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(called) not in decorators:
            continue
        try:
            declared = checked(**_literals(decorator)) if isinstance(decorator, ast.Call) else checked()
        except (TypeError, ValueError) as error:
            problem = f"line {decorator.lineno}: {error}".replace("checked()", "@implementation")
    is_class = isinstance(node, ast.ClassDef)
    parameters, most = _of_function(node.args) if isinstance(node, ast.FunctionDef) else _of_instances(node)
    required = _required(node.args) if isinstance(node, ast.FunctionDef) else ()
    if isinstance(node, ast.FunctionDef) and node.decorator_list and declared is None:
        most = None  # another decorator may make anything of it
    says = _first_line(node)
    return FunctionSource(node.name, node.lineno, parameters, says, declared, problem, is_class, most, required)


def _literals(call: ast.Call) -> dict[str, Any]:
    if call.args or any(keyword.arg is None for keyword in call.keywords):
        raise ValueError("the arguments of @implementation have to be given by keyword, one by one")
    values = {}
    for keyword in call.keywords:
        try:
            values[str(keyword.arg)] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, RecursionError) as error:
            raise ValueError(
                f"{keyword.arg} of @implementation is not a literal, so it cannot be read without an import"
            ) from error
    return values


def _of_function(arguments: ast.arguments) -> tuple[tuple[str, ...] | None, int | None]:
    """The names of the parameters, None for any; and how many arguments can be given by place."""
    shown = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    named = None if arguments.kwarg is not None else tuple(argument.arg for argument in shown)
    most = len(arguments.posonlyargs) + len(arguments.args)
    return named, None if arguments.vararg is not None else most


def _required(arguments: ast.arguments) -> tuple[str, ...]:
    """The parameters without a default."""
    placed = (*arguments.posonlyargs, *arguments.args)
    by_keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    first = placed[: len(placed) - len(arguments.defaults)]
    return tuple(each.arg for each in (*first, *(each for each, default in by_keyword if default is None)))


def _of_instances(node: ast.ClassDef) -> tuple[tuple[str, ...] | None, int | None]:
    """The same of a class's instances: of their method `__call__` or, of a module, `forward`."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name in METHODS:
            named, most = _of_function(method.args)
            return named and named[1:], None if most is None or method.decorator_list else most - 1
    return None, None


def _first_line(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0].strip()
