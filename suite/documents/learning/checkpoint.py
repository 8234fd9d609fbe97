"""Checkpoints: what a training is after an epoch, in a file that is replaced as a whole or not at all.

A file begins with a line that says what it is, with the SHA-256 of all bytes after it: PyTorch's own format does not
notice a damaged number. After the line comes what `torch.save` writes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own
import torch

from attnsuite.machine import cached
from attnsuite.model import UsageError

BEGINNING = b"attnsuite checkpoint, sha256 "
"""How the first line begins; the digest, 64 hexadecimal digits, ends it."""
LONGEST = 200
"""Characters of a file's name that are the training's: file systems take 255."""
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
        return cls(folder / f"{_as_file(name)}.checkpoint", identity)

    def read(self) -> State | None:
        """What was written; None where nothing was.

        Raises UsageError, and leaves the file as it is, where it is damaged or of another identity.
        """
        if not self.path.exists():
            return None
        try:
            found = torch.load(io.BytesIO(self._saved()), weights_only=True)
            there, state = found["identity"], found["state"]
        except UsageError:
            raise
        except Exception as error:  # nothing that `write` writes
            raise UsageError(f"{self.path} is no checkpoint of this version: move it away to begin anew") from error
        if differing := list(_differences(there, json.loads(json.dumps(self.identity)))):
            raise UsageError(
                f"the checkpoint {self.path} is of another configuration ({'; '.join(differing)}): "
                "delete it to begin anew, or name another folder"
            )
        return state  # type: ignore[no-any-return]

    def write(self, state: State) -> None:
        """Replace the file. Raises UsageError where it cannot be written; the former one stays then."""
        saved = io.BytesIO()
        torch.save({"identity": json.loads(json.dumps(self.identity)), "state": state}, saved)
        beside = self.path.with_name(f".{os.getpid()}.checkpoint")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._remove_left()
            with beside.open("wb") as file:
                file.write(_first_line(saved.getbuffer()))
                file.write(saved.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            raise UsageError(f"the checkpoint {self.path} cannot be written: {error}") from None
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)

    def _remove_left(self) -> None:
        """Remove what processes were writing when they were killed."""
        for each in self.path.parent.glob(".*.checkpoint"):
            number = each.name.split(".")[1]
            if number.isdecimal() and not psutil.pid_exists(int(number)):
                each.unlink(missing_ok=True)

    def _saved(self) -> bytes:
        """What `torch.save` wrote. Raises UsageError unless each byte is as it was written."""
        try:
            first, _, saved = self.path.read_bytes().partition(b"\n")
        except OSError as error:
            raise UsageError(f"the checkpoint {self.path} cannot be read: {error.strerror or error}") from None
        if not first.startswith(BEGINNING):
            raise UsageError(f"{self.path} is no checkpoint of attnsuite: move it away to begin anew")
        if first + b"\n" != _first_line(saved):
            why = "its bytes are not those that were written"
            raise UsageError(f"the checkpoint {self.path} is damaged ({why}): delete it to begin anew")
        return saved


def _as_file(name: str) -> str:
    """The name with nothing in it that a file system refuses, and another one for each name."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]", "-", name)
    own = hashlib.sha256(name.encode(errors="backslashreplace")).hexdigest()[:8]
    return plain if plain == name.replace("/", "-") and len(plain) < LONGEST else f"{plain[:LONGEST]}.{own}"


def _first_line(saved: bytes | memoryview) -> bytes:
    return BEGINNING + hashlib.sha256(saved).hexdigest().encode() + b"\n"


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
