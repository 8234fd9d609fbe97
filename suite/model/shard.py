"""One of several parts of a request, which are asked in processes or on machines of their own."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from attnsuite.model.words import UsageError


@dataclass(frozen=True, slots=True)
class Shard:
    """The part `index` of `count`, counted from 1.

    A hash of its name tells in which part a unit falls: on every machine the same, whatever else is asked.
    """

    index: int
    count: int

    @classmethod
    def read(cls, text: str | Shard) -> Shard:
        """The shard in words such as `2/8`. UsageError for what is none."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text))
        if found is None:
            raise UsageError(f"--shard: i/n is due, such as 2/8 for the second of eight, not {text!s:.80}")
        index, count = map(int, found.groups())
        if not count:
            raise UsageError(f"--shard: {text} divides into no part; i/n is due, such as 2/8 for the second of eight")
        if not 1 <= index <= count:
            raise UsageError(f"--shard: {text} is none; shards are counted from 1/{count} to {count}/{count}")
        return cls(index, count)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def folder(self) -> str:
        """What its folder is called, beside those of the others."""
        return f"shard-{self.index}-of-{self.count}"

    def takes(self, *unit: str) -> bool:
        """Whether what is called so falls into this part."""
        digest = hashlib.sha256("\0".join(unit).encode(errors="surrogateescape")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.index - 1
