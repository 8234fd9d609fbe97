"""Files as modules: where a module comes from, how a file is imported by its path, and what a hash of it covers."""

import ast
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from attnsuite.registry.declaration import Declaration
from attnsuite.registry.source import syntax_tree

INSTALLED = ("site-packages", "dist-packages")
"""The names of folders with installed packages, which are independent of each other."""

OWN_PACKAGES = ("attnsuite", "suite")
"""The suite's package, and its folder in a checkout. It has a hash of its own."""
SHIPPED = "attnsuite.implementations."
"""The prefix of modules that ship. Their folder is next to `suite/` in a checkout, and in an installed package."""

_neighbours: dict[str, Path] = {}
"""The modules that submissions imported from their own folders, with the folder of each."""


def locate(module: str) -> ModuleSpec | None:
    """The place a module would be imported from. Neither it nor the packages around it are imported."""
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


def source_hash(declaration: Declaration) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of an implementation's file and its neighbours that it imports.

    The files of its backend count as well. Empty if there is no file.
    """
    files = [declaration.file, *([declaration.backend.file] if declaration.backend else [])]
    contents: dict[Path, bytes] = {}
    try:
        for file in files:
            _read_with_imports(Path(file), contents)
        return hashlib.sha256(b"".join(contents.values())).hexdigest()[:12]
    except OSError:
        return ""


def _read_with_imports(file: Path, contents: dict[Path, bytes]) -> None:
    """Add the bytes of a file, and of the files that it imports from its own folder or the two above it.

    Files of the suite are left out, and, if the folder is one of INSTALLED, files of other packages.
    """
    file = file.resolve()
    if file in contents:
        return
    contents[file] = file.read_bytes()
    with suppress(SyntaxError, ValueError):
        for names, level in _imported(contents[file]):
            homes = [file.parents[level - 1]] if level else file.parents[:3]
            for name, home in product(filter(None, names), homes):
                path_name = name.removeprefix("attnsuite.") if name.startswith(SHIPPED) else name
                first = path_name.partition(".")[0]
                installed = home.name in INSTALLED and first != file.relative_to(home).parts[0]
                path = home.joinpath(*path_name.split(".")).with_suffix(".py")
                if first not in OWN_PACKAGES and not installed and path.is_file():
                    _read_with_imports(path, contents)


def imported_names(source: bytes) -> list[str]:
    """The first names of the modules that a source imports from the path: `torch` of `torch.nn`."""
    return list(
        dict.fromkeys(name.partition(".")[0] for names, level in _imported(source) if not level for name in names)
    )


@lru_cache(maxsize=512)  # one file is read for many implementations and commits
def _imported(source: bytes) -> tuple[tuple[tuple[str, ...], int], ...]:
    """The imported names of a source, and how many folders up they are; 0 for those on the path."""
    imports = []
    for node in ast.walk(syntax_tree(source)):
        if isinstance(node, ast.ImportFrom):
            names = [".".join(filter(None, (node.module, alias.name))) for alias in node.names] + [node.module or ""]
            imports.append((tuple(names), node.level))
        elif isinstance(node, ast.Import):
            imports.append((tuple(alias.name for alias in node.names), 0))
    return tuple(imports)


def comes_from(module: str, file: str) -> bool:
    """Whether importing this name gives this file: another module of that name may be earlier on the path."""
    spec = locate(module)
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == Path(file).resolve()


class _FromSource(SourceFileLoader):
    """Compiles the source as it is now, and writes no bytecode into the submitter's folder."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)


def module_name(file: Path) -> str:
    """The name of the module that a file becomes."""
    return f"attnsuite_file_{hashlib.sha256(os.fsencode(file)).hexdigest()[:12]}_{file.stem.replace('.', '_')}"


def module_of_file(file: Path) -> ModuleType:
    """The module of a file, imported by its path: once, and again when the file has changed."""
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
    """Let a file import modules from its own folder, in place of those of the same name from another folder."""
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
