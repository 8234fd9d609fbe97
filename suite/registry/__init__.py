"""Finding implementations: by registered name, file, module or entry point."""

from attnsuite.registry.callables import import_lines, preserve_modes, usual_contract
from attnsuite.registry.calls import with_signature
from attnsuite.registry.declaration import Broken, Declaration, Loaded, Missing, implementation
from attnsuite.registry.discovery import ENTRY_POINTS, contracts, discover
from attnsuite.registry.files import locate, source_hash
from attnsuite.registry.loading import from_function, load, missing_library
from attnsuite.registry.naming import assumptions
from attnsuite.registry.roles import weights_in
from attnsuite.registry.side_effects import preserve_process_state
from attnsuite.registry.source import line_of
from attnsuite.registry.targets import command_words, find, without

__all__ = [
    "ENTRY_POINTS",
    "Broken",
    "Declaration",
    "Loaded",
    "Missing",
    "assumptions",
    "command_words",
    "contracts",
    "discover",
    "find",
    "from_function",
    "implementation",
    "import_lines",
    "line_of",
    "load",
    "locate",
    "missing_library",
    "preserve_modes",
    "preserve_process_state",
    "source_hash",
    "usual_contract",
    "weights_in",
    "with_signature",
    "without",
]
