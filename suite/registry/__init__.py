"""Finding implementations: by registered name, file, module or entry point."""

from __future__ import annotations

from suite.registry.declaration import Broken, Declaration, Loaded, Missing, implementation
from suite.registry.discovery import ENTRY_POINTS, contracts, discover
from suite.registry.importing import import_lines
from suite.registry.loading import absent, from_function, load, locate, source_hash
from suite.registry.naming import introduction
from suite.registry.reading import line_of
from suite.registry.side_effects import undisturbed
from suite.registry.signing import asked_in
from suite.registry.styles import modes_kept
from suite.registry.targets import find, spelled

__all__ = [
    "ENTRY_POINTS",
    "Broken",
    "Declaration",
    "Loaded",
    "Missing",
    "absent",
    "asked_in",
    "contracts",
    "discover",
    "find",
    "from_function",
    "implementation",
    "import_lines",
    "introduction",
    "line_of",
    "load",
    "locate",
    "modes_kept",
    "source_hash",
    "spelled",
    "undisturbed",
]
