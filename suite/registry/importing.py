"""How another Python imports an implementation, as lines to paste."""

from __future__ import annotations

from pathlib import Path

from attnsuite.registry.callables import in_python
from attnsuite.registry.declaration import Declaration


def import_lines(declaration: Declaration) -> tuple[str, ...]:
    """Lines that import torch, and the function under its contract's name; none where something is plugged into it.

    A file is imported from its folder, as the suite does.
    """
    first, _, attribute = declaration.function.partition(".")
    if declaration.backend or not first or not (declaration.module or declaration.file):
        return ()
    alias = "" if attribute or first == declaration.contract else f" as {declaration.contract}"
    then = [f"{declaration.contract} = {first}.{attribute}"] if attribute else []
    if declaration.conversion:
        then.append(f"{declaration.contract} = {in_python(declaration.contract, declaration.conversion)}")
    if declaration.module:
        return ("import torch", f"from {declaration.module} import {first}{alias}", *then)
    file = Path(declaration.file).resolve()
    if not file.stem.isidentifier():
        return (
            ("import runpy, torch", f"{declaration.contract} = runpy.run_path({str(file)!r})[{first!r}]")
            if not then
            else ()
        )
    return (
        f"import sys, torch; sys.path.insert(0, {str(file.parent)!r})",
        f"from {file.stem} import {first}{alias}",
        *then,
    )
