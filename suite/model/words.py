"""Words that all packages share: names in requests and rows, the version, escaping of texts, and UsageError."""

import shlex
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from unicodedata import category

DTYPES = ("float64", "float32", "float16", "bfloat16")
"""The dtypes of tests, the widest first, in the order of tables."""
PASSES = ("forward", "backward", "forward_backward")
"""The timed parts of a call: its output, its gradients, or both together."""
RESULTS = Path("results")
"""The default folder of results."""
STEP = "step"
"""A training step: forward, loss, backward, and the optimiser's update of the weights."""
DIRECTIONS = (*PASSES, STEP)
"""Everything that is timed, in the order of tables."""
CACHES = ("hot", "cold")
"""The last-level cache before a timed call: as the previous call left it, or flushed."""
SHAPE = "shape/"
"""The prefix of the names of workloads that users give as shapes."""
PROFILES = ("quick", "standard", "gpu", "full")
"""The sets of workloads: for CI, for an idle machine, for ten minutes of a GPU, for hours of one."""

EVERY_CASE = "*"
"""The case, dtype or workload of a row about all of them, such as a missing library or an import error."""


class UsageError(Exception):
    """A request that cannot be carried out. Its message is one line: what was given, what is expected."""

    def __init__(self, message: str = "") -> None:
        super().__init__(escaped(message))


try:
    VERSION = metadata.version("attnsuite")
except metadata.PackageNotFoundError:
    VERSION = "unknown"
"""The installed version; "unknown" in a checkout that is not installed."""


PRINTED = frozenset("\n\t")
"""Control characters that stay in a text of several lines."""


def escaped(text: str) -> str:
    r"""The text with `\x1b` in place of a control character, and the like for marks of direction and lone surrogates.

    Backslashes stay, so that escaping twice changes nothing.
    """
    return text if text.isprintable() else "".join(map(_escaped_character, text))


def _escaped_character(character: str) -> str:
    if character.isprintable() or character in PRINTED or category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


def command_line(words: Iterable[str]) -> str:
    r"""The words as bash and zsh read them; `$'k\xff.py'` for the name of a file that is not UTF-8."""
    return " ".join(shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_quoted, word))}'" for word in words)


def _quoted(character: str) -> str:
    r"""The character inside `$'…'`. A byte that is not UTF-8 is a lone surrogate in Python, U+DC80 to U+DCFF."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character if character.isprintable() and character not in "'\\" else f"\\U{code:08x}"
