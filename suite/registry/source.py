"""What a file declares with `@implementation`, read from its source without importing it."""

import ast
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from attnsuite.registry.calls import contract_of
from attnsuite.registry.declaration import Declaration, implementation_arguments
from attnsuite.registry.signatures import OWN, SIGNATURES_OF, AmbiguousSignature, recognise, signature

HOMES = ("attnsuite", "attnsuite.registry")
"""The modules that define the decorator."""
UNDECORATED = "decorates no function with @implementation"
MAX_LISTED = 12
"""Names in a message; of more, the others are counted."""
MADE = ["Linear", "Conv1d", "Conv2d", "Embedding", "LayerNorm", "GRU", "LSTM", "MultiheadAttention"]
LAYERS = {"Parameter", "TransformerEncoderLayer", "TransformerDecoderLayer", *MADE, *(f"Lazy{name}" for name in MADE)}
"""The names by which a source shows that a class of it has weights."""
METHODS = ("__call__", "forward")
"""The methods that define the parameters of an instance: of a class, and of a module."""

_parser = threading.Lock()
"""For one thread at a time: CPython 3.11 miscounts the recursion depth of two that parse (python/cpython#106905)."""


@dataclass(frozen=True)
class FunctionSource:
    """A decorated function or class. Its `parameters` are `None` where the source does not show them."""

    name: str
    line: int
    parameters: tuple[str, ...] | None
    summary: str
    declared: dict[str, Any]
    """The arguments of the decorator."""
    problem: str = ""
    """Why the arguments cannot be read, or empty."""


@dataclass(frozen=True)
class FileSource:
    """A file: what it decorates, and each function and class that a statement of it defines."""

    summary: str = ""
    decorated: tuple[FunctionSource, ...] = ()
    lines: tuple[tuple[str, int], ...] = ()
    contracts: tuple[tuple[str, str], ...] = ()
    """The functions whose parameters show a contract other than attention, and the contract."""
    problem: str = ""
    """Why the file cannot be read as Python, in one line that says where; or empty."""
    weighted: tuple[tuple[str, str], ...] = ()
    """The classes that make layers with weights, and the names of their instances; each with its class."""
    top: str = ""
    """The only function or class that no other one of the file uses, or empty."""

    def contract_of(self, name: str) -> str | None:
        """The contract that the decorator of this function names, by itself or by a signature."""
        declared = next((function.declared for function in self.decorated if function.name == name), {})
        if declared.get("contract") or not declared.get("signature"):
            return declared.get("contract")
        of_signature = signature(declared["signature"]).contract
        return of_signature if of_signature != SIGNATURES_OF else None


def read(file: Path) -> FileSource:
    """Read a file. If it cannot be read as Python, `problem` says why."""
    try:
        return _parsed(file.read_bytes(), file)
    except OSError as error:
        return _unreadable(error, file)


def line_of(file: Path, function: str) -> int:
    """The line at which a function or a class begins; 0 where the source does not show it."""
    return dict(read(file).lines).get(function.partition(".")[0], 0)


def of_file(file: Path, contract: str, name: str, module: str = "") -> list[Declaration]:
    """The decorated functions of a registered file; if it has none, one declaration that says what is wrong."""
    whole, source = Declaration(contract, name, "", module, str(file)), read(file)
    if not source.decorated:
        return [replace(whole, broken=source.problem or UNDECORATED)]

    def registered(declared: str | None) -> Declaration:
        if declared in (None, contract):
            return whole
        return replace(whole, broken=f"it is registered as {contract}, and its decorator says {declared}")

    return decorated(source, registered)


def decorated(source: FileSource, placed: Callable[[str | None], Declaration]) -> list[Declaration]:
    """A declaration for each decorated function, `placed` by the contract that its decorator names."""
    declarations: dict[str, Declaration] = {}
    for function in source.decorated:
        whole = placed(source.contract_of(function.name))
        whole = replace(whole, name=".".join(filter(None, (whole.name, function.declared["variant"]))))
        declaration = of_function(function, source, whole)
        for twin in source.decorated:
            same = twin.name == function.name or twin.declared["variant"] == function.declared["variant"]
            if twin is not function and same and not declaration.broken:
                lines = " and ".join(map(str, sorted((twin.line, function.line))))
                says = f"lines {lines} both declare {declaration.name!r}: keep one, or give each a variant"
                declaration = replace(declaration, broken=says)
        declarations[declaration.name] = declaration
    return list(declarations.values())


def of_function(function: FunctionSource, source: FileSource, whole: Declaration) -> Declaration:
    """The declaration of a decorated function, with the name and the place of `whole`."""
    summaries = [function.summary, source.summary]
    first, second = summaries if function.declared["variant"] else reversed(summaries)
    declared = {key: value for key, value in function.declared.items() if key not in ("variant", "contract")}
    if whole.signature:  # named by the user
        declared |= {"signature": whole.signature, "signature_by": whole.signature_by}
    return replace(
        whole,
        function=function.name,
        parameters=_own_parameters(function, whole),
        summary=first or second,
        broken=function.problem or whole.broken,
        **declared,
    )


def _own_parameters(function: FunctionSource, whole: Declaration) -> tuple[str, ...] | None:
    """The parameters with the names of the contract; None for those of another library, until the import."""
    if whole.contract != SIGNATURES_OF:
        return function.parameters
    try:
        name = whole.signature or function.declared["signature"] or recognise(function.parameters)[0]
    except AmbiguousSignature:
        return None
    return function.parameters if name in ("", OWN) else None


def syntax_tree(source: bytes, name: str = "<unknown>") -> ast.Module:
    """The tree of a source, without its warnings. Raises as `ast.parse` does."""
    with _parser, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, name)


@cache  # a command reads registered files several times
def _parsed(source: bytes, file: Path) -> FileSource:
    try:
        tree = syntax_tree(source, str(file))
    except SyntaxError as error:
        return FileSource(problem=f"SyntaxError: {error.msg} ({file.name}, line {error.lineno})")
    except (ValueError, RecursionError, MemoryError) as error:
        return _unreadable(error, file)
    statements = list(_statements(tree.body))
    names = _decorators(statements)
    defined = [node for node in statements if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    marked = [
        (node, mark)
        for node in defined
        for mark in node.decorator_list
        if ast.unparse(mark.func if isinstance(mark, ast.Call) else mark) in names
    ]
    return FileSource(
        _first_line(tree),
        tuple(_function(node, mark) for node, mark in marked),
        tuple((node.name, node.lineno) for node in defined),
        tuple((node.name, contract) for node in defined if (contract := _contract_shown(node))),
        weighted=tuple(_weighted(statements)),
        top=_top(defined),
    )


def _unreadable(error: Exception, file: Path) -> FileSource:
    return FileSource(problem=f"{type(error).__name__}: {error} ({file.name})".replace("\n", " "))


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those under `if`, `try`, `with` and `match`."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for block in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, block, []))
            for inner in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
                yield from _statements(inner.body)


def _weighted(statements: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The classes that use a layer with weights, or another such class, and what they make; each with its class."""
    weighted: dict[str, str] = {}
    for node in statements:
        used = [name for name in _used(node) if name in LAYERS or name in weighted]
        if used and isinstance(node, ast.ClassDef):
            weighted[node.name] = node.name
        elif used and isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            weighted |= {
                target.id: weighted.get(used[0], used[0]) for target in node.targets if isinstance(target, ast.Name)
            }
    return iter(weighted.items())


def _used(node: ast.AST) -> Iterator[str]:
    """The names that a statement uses, and the last names of attributes."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute):
            yield part.id if isinstance(part, ast.Name) else part.attr


def _top(defined: Sequence[ast.FunctionDef | ast.ClassDef]) -> str:
    """The only public function or class that no other one uses; empty with several."""
    used = {name for node in defined for name in _used(node) if name != node.name}
    tops = [node.name for node in defined if node.name not in used and not node.name.startswith("_")]
    return tops[0] if len(tops) == 1 else ""


def _decorators(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """The names under which a module knows the decorator: `implementation`, `attnsuite.implementation`."""
    names = set()
    for node in statements:
        if isinstance(node, ast.ImportFrom) and node.module in HOMES:
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "implementation"}
        elif isinstance(node, ast.Import):
            names |= {f"{alias.asname or alias.name}.implementation" for alias in node.names if alias.name in HOMES}
    return frozenset(names)


def _function(node: ast.FunctionDef | ast.ClassDef, decorator: ast.expr) -> FunctionSource:
    declared, problem = implementation_arguments(), ""
    try:
        declared = implementation_arguments(**_literals(decorator)) if isinstance(decorator, ast.Call) else declared
    except (TypeError, ValueError) as error:
        problem = f"line {decorator.lineno}: {error}"
    return FunctionSource(node.name, node.lineno, _parameters(node), _first_line(node), declared, problem)


def _literals(call: ast.Call) -> dict[str, Any]:
    if call.args or any(keyword.arg is None for keyword in call.keywords):
        raise ValueError("@implementation expects keyword arguments, written one by one")
    values = {}
    for keyword in call.keywords:
        try:
            values[str(keyword.arg)] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, RecursionError) as error:
            raise ValueError(
                f"{keyword.arg} of @implementation is not a literal; write its value, which is read without an import"
            ) from error
    return values


def _parameters(node: ast.FunctionDef | ast.ClassDef) -> tuple[str, ...] | None:
    """The names of the parameters, of a class those of its instances; None for any."""
    if isinstance(node, ast.ClassDef):
        method = _method(node)
        names = _parameters(method) if method else None
        return names and names[1:]
    return None if node.args.kwarg else tuple(argument.arg for argument in _arguments(node))


def _method(node: ast.ClassDef) -> ast.FunctionDef | None:
    """The method that defines the parameters of an instance."""
    return next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name in METHODS), None)


def _arguments(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _contract_shown(node: ast.FunctionDef | ast.ClassDef) -> str:
    """The contract other than attention that the parameters of a public function show; empty for none."""
    if isinstance(node, ast.ClassDef):
        method = _method(node)
        return _contract_shown(method) if method else ""
    if node.name.startswith("_") and node.name not in METHODS:
        return ""
    positional = [*node.args.posonlyargs, *node.args.args]
    required = positional[: len(positional) - len(node.args.defaults)]
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    required += [parameter for parameter, default in pairs if default is None]
    every, needed = ([part.arg for part in group if part.arg != "self"] for group in (_arguments(node), required))
    return contract_of(every, needed)


def _first_line(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0].strip()
