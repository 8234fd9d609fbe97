"""The tested file as an importable module: child processes find functions by module and name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from attnsuite.model.temporary import PREFIX
from attnsuite.registry import Declaration
from attnsuite.registry.files import module_name

IMPORTED_FROM = """# Written by attnsuite: the file that is tested, for its child processes.
import importlib.util, sys

_spec = importlib.util.spec_from_file_location(__name__, {file})
sys.modules[__name__] = _module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
"""
"""The source of a module that stands for a tested file under its module name."""


def make_importable(declaration: Declaration) -> None:
    """Let child processes with this `sys.path`, such as those of `multiprocessing` and joblib, import a tested file.

    A module for each file is written to the sandbox's own folder; without a sandbox nothing is written.
    """
    own = Path(os.environ.get("TMPDIR", ""))
    if not own.name.startswith(PREFIX):  # without a sandbox
        return
    folder = own / "files"
    for part in filter(None, (declaration, declaration.backend)):
        if part.file:
            file = Path(part.file).resolve()
            folder.mkdir(exist_ok=True)
            (folder / f"{module_name(file)}.py").write_text(IMPORTED_FROM.format(file=ascii(str(file))))
            sys.path += [str(folder)] * (str(folder) not in sys.path)
