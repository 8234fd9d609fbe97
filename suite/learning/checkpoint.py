"""Checkpoints: what a training is after an epoch, in a file that is replaced as a whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from suite.machine import cached
from suite.records import UsageError

State = Mapping[str, Any]
"""`weights`, `optimiser`, `generator`, `curve` and `seconds`, as tensors, numbers, lists and dicts."""


def cache() -> Path:
    """The folder that checkpoints are kept in, in the user's cache folder."""
    return cached.cache() / "learning"


@dataclass(frozen=True)
class Checkpoint:
    """The file of one training. `identity` is all that its weights depend on: another training's file is refused."""

    path: Path
    identity: Mapping[str, Any]

    @classmethod
    def within(cls, folder: Path | None, name: str, identity: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint of this name in a folder; or in the cache, where each identity has a folder of its own."""
        folder = folder or cache() / digest(identity)
        return cls(folder / f"{name.replace('/', '-')}.pt", identity)

    def read(self) -> State | None:
        """What was written; None where nothing was.

        Raises UsageError, and leaves the file as it is, where it is damaged or of another identity.
        """
        if not self.path.exists():
            return None
        try:
            found = torch.load(self.path, weights_only=True)
            there, state = found["identity"], found["state"]
        except Exception as error:  # torch.load raises whatever damaged bytes lead to
            why = " ".join(str(error).split())[:120] or type(error).__name__
            raise UsageError(f"the checkpoint {self.path} is damaged ({why}): delete it to begin anew") from None
        if differing := list(_differences(there, json.loads(json.dumps(self.identity)))):
            raise UsageError(
                f"the checkpoint {self.path} is of another configuration ({'; '.join(differing)}): "
                "delete it to begin anew, or name another folder"
            )
        return state  # type: ignore[no-any-return]

    def write(self, state: State) -> None:
        """Replace the file. Raises UsageError where it cannot be written; the former one stays then."""
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                torch.save({"identity": json.loads(json.dumps(self.identity)), "state": state}, file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except (OSError, RuntimeError) as error:  # RuntimeError: how torch says that a disk is full
            raise UsageError(f"the checkpoint {self.path} cannot be written: {error}") from None
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)


def digest(identity: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits that stand for an identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _differences(there: Any, due: Any, name: str = "") -> Iterator[str]:
    """Each value that is not as is due, in words."""
    if isinstance(there, dict) and isinstance(due, dict):
        for key in dict.fromkeys((*due, *there)):
            yield from _differences(there.get(key), due.get(key), f"{name}.{key}".strip("."))
    elif there != due:
        yield f"{name} is {there!r:.40}, and {due!r:.40} is due"
