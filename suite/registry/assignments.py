"""Which names a file gives, by assignment or import, to what may be called: instances of its classes, and others."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

METHODS = ("__call__", "forward")
"""The methods that make instances callable, the second those of a module."""
RETURN_SELF = frozenset(
    {"bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "to", "train", "type"}
)
"""The methods of a module that return it."""
WRAPPERS = frozenset({"compile", "jit", "script"})
"""Functions that return a faster form of what they are given: `torch.compile`, `torch.jit.script`, `jax.jit`."""
DATA = (
    ast.Constant | ast.JoinedStr | ast.Dict | ast.List | ast.Tuple | ast.Set | ast.BinOp | ast.UnaryOp | ast.Compare
) | (ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
"""Values that cannot be called."""


@dataclass(frozen=True)
class AssignedSource:
    """A name that is bound to what may be called. `of` is the class of the file that it is an instance of, or empty."""

    name: str
    line: int
    of: str = ""
    imported: bool = False
    """It is another file's, under a name of this one."""


def assigned(statements: Sequence[ast.stmt]) -> tuple[AssignedSource, ...]:
    """The public names that statements bind to what may be called, each as it is bound last, in the order of lines.

    An instance of a class of these statements is left out where that has no method by which it can be called.
    """
    classes = {node.name: node for node in statements if isinstance(node, ast.ClassDef)}
    found: dict[str, AssignedSource] = {}
    for statement in statements:
        for name, value in _bound(statement):
            found.pop(name, None)
            each = _assigned(name, value, classes)
            if each is not None and not name.startswith("_"):
                found[name] = each
    return tuple(found.values())


def _bound(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    """Each name that a statement binds, with its value, or with the statement that defines or imports it."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name, statement
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield (alias.asname or alias.name).partition(".")[0], statement
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from _unpacked(statement.target, statement.value)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _unpacked(target, statement.value)


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, its in zip(target.elts, value.elts, strict=True):
            yield from _unpacked(one, its)


def _assigned(name: str, value: ast.expr | ast.stmt, classes: Mapping[str, ast.ClassDef]) -> AssignedSource | None:
    """What a name is bound to, if that may be called and is no function or class of the file."""
    if isinstance(value, ast.ImportFrom):
        return AssignedSource(name, value.lineno, imported=True)
    if isinstance(value, ast.stmt | DATA):
        return None
    of = _class_of(value, classes)
    return None if of and not _is_callable(of, classes) else AssignedSource(name, value.lineno, of)


def _class_of(value: ast.expr, classes: Mapping[str, ast.ClassDef]) -> str:
    """The class of the file whose instance this expression is; empty if it is none.

    `Mine(2.0)`, `Mine(2.0).eval()`, `torch.compile(Mine(2.0))`, and `Mine(2.0).forward`, which is as good.
    """
    if isinstance(value, ast.Attribute) and value.attr in METHODS:
        return _class_of(value.value, classes)
    if not isinstance(value, ast.Call):
        return ""
    called = value.func
    if isinstance(called, ast.Name):
        return called.id if called.id in classes else ""
    if isinstance(called, ast.Attribute) and called.attr in WRAPPERS and value.args:
        return _class_of(value.args[0], classes)
    if isinstance(called, ast.Attribute) and called.attr in RETURN_SELF:
        return _class_of(called.value, classes)
    return ""


def _is_callable(name: str, classes: Mapping[str, ast.ClassDef], seen: frozenset[str] = frozenset()) -> bool:
    """Whether a class of the file, or one that it inherits from there, has a method by which instances are called."""
    if name not in classes or name in seen:
        return False
    node = classes[name]
    if any(isinstance(each, ast.FunctionDef) and each.name in METHODS for each in node.body):
        return True
    return any(_is_callable(ast.unparse(base), classes, seen | {name}) for base in node.bases)
