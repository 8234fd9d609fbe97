"""The operators that ran in some questions of a check, which are looked at for that once it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ATTENTION = "attention"
"""What the operators of PyTorch's attention have in their names."""
NAMED = 6
"""Operators that are named in a line; of more, the others are counted."""


@dataclass(frozen=True, slots=True)
class Operators:
    """In how many questions each operator ran, of so many that were looked at."""

    looked_at: int
    ran: Mapping[str, int] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """In a short line: PyTorch's own attention before all others."""
        return self._in_words(NAMED)

    @property
    def whole(self) -> str:
        """The same with every operator."""
        return self._in_words(len(self.ran))

    def _in_words(self, most: int) -> str:
        if not self.ran:
            return f"operators: none of PyTorch's ran in the {self.looked_at} questions looked at; other code computed"
        attention = [name for name in self.ran if ATTENTION in name]
        names = sorted(self.ran, key=lambda name: (name not in attention, -self.ran[name], name))
        shown = ", ".join(f"{name.removeprefix('aten::')} {self.ran[name]}" for name in names[:most])
        more = f" and {len(names) - most} more" if len(names) > most else ""
        called = "PyTorch's own attention is called; " if any(name.startswith("aten::") for name in attention) else ""
        return f"operators: {called}in {self.looked_at} questions ran {shown}{more}"
