"""The operators that ran in some questions of a check, which are looked at for that once it has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import field

from attnsuite.model.typed import Count, Row

ATTENTION = "attention"
"""What the operators of PyTorch's attention have in their names."""
NAMED = 6
"""Operators that are named in a line; of more, the others are counted."""


class Operators(Row, frozen=True):
    """In how many questions each operator ran, of so many that were looked at."""

    looked_at: Count
    ran: Mapping[str, Count] = field(default_factory=dict)

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
            looked_at = f"{self.looked_at} questions" if self.looked_at > 1 else "one question"
            return f"operators: none of PyTorch's ran in the {looked_at} looked at; other code computed"
        attention = [name for name in self.ran if ATTENTION in name]
        names = sorted(self.ran, key=lambda name: (name not in attention, -self.ran[name], name))
        called = "PyTorch's own attention is called; " if any(name.startswith("aten::") for name in attention) else ""
        more = f", and {len(names) - most} more" if len(names) > most else ""
        return f"operators: {called}{self._sentence(names[:most])}{more}"

    def _sentence(self, names: Sequence[str]) -> str:
        """`each of the 31 questions looked at ran matmul, div; some ran where (12), add (3)`."""
        each = [_short(name) for name in names if self.ran[name] >= self.looked_at]
        some = [f"{_short(name)} ({self.ran[name]})" for name in names if self.ran[name] < self.looked_at]
        of = f"of the {self.looked_at} questions looked at" if self.looked_at > 1 else "question looked at"
        if not each:
            return f"some {of} ran {', '.join(some)}"
        whole = f"{'each' if self.looked_at > 1 else 'the one'} {of} ran {', '.join(each)}"
        return f"{whole}; some ran {', '.join(some)}" if some else whole


def _short(name: str) -> str:
    return name.removeprefix("aten::")
