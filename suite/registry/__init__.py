"""Finding implementations: by registered name, file, module or entry point."""

from __future__ import annotations

from attnsuite.registry.declaration import Broken, Declaration, Loaded, Missing, implementation
from attnsuite.registry.discovery import ENTRY_POINTS, contracts, discover
from attnsuite.registry.files import locate, source_hash
from attnsuite.registry.importing import import_lines
from attnsuite.registry.loading import absent, from_function, load
from attnsuite.registry.naming import introduction
from attnsuite.registry.side_effects import undisturbed
from attnsuite.registry.signing import asked_in
from attnsuite.registry.source import line_of
from attnsuite.registry.styles import modes_kept
from attnsuite.registry.targets import find, spelled

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
