"""Finding implementations: by registered name, file, module or entry point."""

from attnsuite.registry.callables import import_lines as import_lines
from attnsuite.registry.callables import preserve_modes as preserve_modes
from attnsuite.registry.callables import usual_contract as usual_contract
from attnsuite.registry.calls import with_signature as with_signature
from attnsuite.registry.declaration import Broken as Broken
from attnsuite.registry.declaration import Declaration as Declaration
from attnsuite.registry.declaration import Loaded as Loaded
from attnsuite.registry.declaration import Missing as Missing
from attnsuite.registry.declaration import implementation as implementation
from attnsuite.registry.discovery import ENTRY_POINTS as ENTRY_POINTS
from attnsuite.registry.discovery import discover as discover
from attnsuite.registry.files import locate as locate
from attnsuite.registry.files import source_hash as source_hash
from attnsuite.registry.loading import from_function as from_function
from attnsuite.registry.loading import load as load
from attnsuite.registry.loading import missing_library as missing_library
from attnsuite.registry.naming import assumptions as assumptions
from attnsuite.registry.roles import weights_in as weights_in
from attnsuite.registry.side_effects import preserve_process_state as preserve_process_state
from attnsuite.registry.source import line_of as line_of
from attnsuite.registry.targets import command_words as command_words
from attnsuite.registry.targets import find as find
from attnsuite.registry.targets import without as without
