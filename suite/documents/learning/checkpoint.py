"""Checkpoints: the state of a training after an epoch, in a file that is replaced atomically.

A file begins with a line that names its kind and the SHA-256 of all bytes after it, because PyTorch's own format does
not notice a damaged number. The output of `torch.save` follows.
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

from attnsuite.machine.cached import cache
from attnsuite.model import UsageError

FIRST_WORDS = b"attnsuite checkpoint, sha256 "
LONGEST = 200
"""Characters of a file's name that come from the training: file systems allow 255."""
State = Mapping[str, Any]
"""`weights`, `optimiser`, `generator`, `curve` and `seconds`, as tensors, numbers, lists and dicts."""


@dataclass(frozen=True)
class Checkpoint:
    """The file of one training. `identity` is everything its weights depend on; a file of another one is refused."""

    path: Path
    identity: Mapping[str, Any]

    @classmethod
    def within(cls, folder: Path | None, name: str, identity: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint of this name in a folder, or in the user's cache, which has a folder for each identity."""
        folder = folder or cache() / "learning" / digest(identity)
        return cls(folder / f"{_file_name(name)}.checkpoint", identity)

    def read(self) -> State | None:
        """The state in the file, or None without a file.

        Raises UsageError, and leaves the file as it is, where it is damaged or of another identity.
        """
        if not self.path.exists():
            return None
        try:
            stored = torch.load(io.BytesIO(self._saved()), weights_only=True)
            identity, state = stored["identity"], stored["state"]
        except UsageError:
            raise
        except Exception as error:  # not a file that `write` writes
            raise UsageError(f"{self.path} is no checkpoint of this version: move it away to begin anew") from error
        if differences := list(_differences(identity, json.loads(json.dumps(self.identity)))):
            raise UsageError(
                f"the checkpoint {self.path} is of another configuration ({'; '.join(differences)}): "
                "delete it to begin anew, or name another folder"
            )
        return state  # type: ignore[no-any-return]

    def write(self, state: State) -> None:
        """Replace the file. Raises UsageError where it cannot be written; the former file then stays."""
        saved = io.BytesIO()
        torch.save({"identity": json.loads(json.dumps(self.identity)), "state": state}, saved)
        new = self.path.with_name(f".{os.getpid()}.checkpoint")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._remove_left_behind()
            with new.open("wb") as file:
                file.write(first_line(saved.getbuffer()))
                file.write(saved.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as error:
            raise UsageError(f"the checkpoint {self.path} cannot be written: {error}") from None
        finally:
            with suppress(OSError):
                new.unlink(missing_ok=True)

    def _remove_left_behind(self) -> None:
        """Remove the unfinished files of processes that were killed."""
        for file in self.path.parent.glob(".*.checkpoint"):
            number = file.name.split(".")[1]
            if number.isdecimal() and not psutil.pid_exists(int(number)):
                file.unlink(missing_ok=True)

    def _saved(self) -> bytes:
        """The output of `torch.save`. Raises UsageError unless every byte is as written."""
        try:
            first, _, saved = self.path.read_bytes().partition(b"\n")
        except OSError as error:
            raise UsageError(f"the checkpoint {self.path} cannot be read: {error.strerror or error}") from None
        if not first.startswith(FIRST_WORDS):
            raise UsageError(f"{self.path} is no checkpoint of attnsuite: move it away to begin anew")
        if first + b"\n" != first_line(saved):
            why = "its bytes are not those that were written"
            raise UsageError(f"the checkpoint {self.path} is damaged ({why}): delete it to begin anew")
        return saved


def _file_name(name: str) -> str:
    """The name without characters that a file system refuses; different for each name."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]", "-", name)
    own = hashlib.sha256(name.encode(errors="backslashreplace")).hexdigest()[:8]
    return plain if plain == name.replace("/", "-") and len(plain) < LONGEST else f"{plain[:LONGEST]}.{own}"


def first_line(saved: bytes | memoryview) -> bytes:
    """The first line of a file that holds these bytes."""
    return FIRST_WORDS + hashlib.sha256(saved).hexdigest().encode() + b"\n"


def digest(identity: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits that stand for an identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _differences(actual: Any, expected: Any, name: str = "") -> Iterator[str]:
    """Each value that differs, in words."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in dict.fromkeys((*expected, *actual)):
            yield from _differences(actual.get(key), expected.get(key), f"{name}.{key}".strip("."))
    elif actual != expected:
        yield f"{name} is {actual!r:.40}, expected {expected!r:.40}"
