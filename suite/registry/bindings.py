"""Which names a file binds when it is imported, and from which modules it imports, read from its statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

WRITING = (b"globals", b"locals", b"vars", b"exec", b"setattr")
"""Names by which code writes to a module's dictionary."""
INNER = ast.stmt | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
"""Parts of a statement that are statements themselves, or have a scope of their own."""


def bound(statements: Sequence[ast.stmt], tree: ast.Module, source: bytes) -> frozenset[str]:
    """The names that the statements of a module bind; `*` for a star import.

    A name that a function declares `global` counts: a call may bind it during the import.
    """
    names: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
        elif not isinstance(statement, ast.AnnAssign) or statement.value is not None:
            names |= {node.id for node in _stores(statement) if isinstance(node, ast.Name)}
    for node in ast.walk(tree) if b"global " in source else ():
        names |= {*node.names} if isinstance(node, ast.Global) else set()
    return frozenset(names)


def is_open(names: frozenset[str], tree: ast.Module, source: bytes) -> bool:
    """Whether an import may bind names that no statement shows: by `*`, `__getattr__`, or the module's dictionary."""
    if {"*", "__getattr__"} & names:
        return True
    words = {word.decode() for word in WRITING if word in source}
    return bool(words) and any(isinstance(node, ast.Name) and node.id in words for node in ast.walk(tree))


def imported(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """The first names of the modules that statements import: `torch` of `torch.nn`."""
    for statement in statements:
        if isinstance(statement, ast.ImportFrom) and not statement.level:
            yield (statement.module or "").partition(".")[0]
        elif isinstance(statement, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in statement.names)


def _stores(statement: ast.stmt) -> Iterator[ast.AST]:
    """The places in a statement where it stores, without its inner statements: `for`, `with`, `:=`, assignments."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(getattr(node, "ctx", None), ast.Store):
            yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, INNER)]
