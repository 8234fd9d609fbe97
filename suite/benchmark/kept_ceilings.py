"""Ceilings of earlier runs: in the user's cache folder, for a day, and never without their age."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from attnsuite import machine
from attnsuite.benchmark.kept import digest, installed
from attnsuite.benchmark.measure.protocol import Rates
from attnsuite.machine.cached import cache as cache_folder
from attnsuite.model import UsageError
from attnsuite.results.store import replace_file

BELIEVED_FOR = 86_400.0
"""Seconds: a machine's ceilings are the best that it could do, and change with what it is, not with what it does."""
AGE = "age"
"""How many seconds before a row's table its ceilings were measured, among them; absent where the run measured them."""


class KeptCeilings:
    """What a device of this machine reached, by dtype and threads, with these versions of everything installed.

    `believes` is whether what was kept is read, or only written.
    """

    def __init__(self, device: str, believes: bool = True) -> None:
        self._device, self._believes = device, believes

    def of(self, dtype: str, threads: int) -> Rates | None:
        """What an earlier run measured, with its age in seconds; None where there is none, or it is too old."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            kept = json.loads(self._place(dtype, threads).read_bytes()) if self._believes else {"at": 0.0}
            age = time.time() - float(kept["at"])
            if 0 < age < BELIEVED_FOR:
                return {**{name: float(kept[name]) for name in ("flops", "bytes")}, AGE: age}
        return None

    def keep(self, dtype: str, threads: int, found: Mapping[str, float]) -> None:
        """Keep what was measured now. Where the cache folder cannot be written nothing is kept."""
        place = self._place(dtype, threads)
        with suppress(OSError, UsageError):
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_file(place, json.dumps({"at": time.time(), **found}))

    def _place(self, dtype: str, threads: int) -> Path:
        here = structs.asdict(machine.here()), sys.version, machine.suite_hash(), installed()
        return cache_folder() / "ceilings" / f"{digest([*here, self._device, dtype, threads])}.json"
