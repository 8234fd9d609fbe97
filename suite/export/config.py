"""The config of a model that is exported: the usual one, a file's, and what is set beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attnsuite.export.exporter import Exporter
from attnsuite.model import UsageError
from attnsuite.model.regular import read_text


def configured(found: Exporter, given: Mapping[str, Any]) -> dict[str, Any]:
    """The usual config with what is given. UsageError for a name or a value that no model can be made of."""
    usual = found.exports.usual
    if unknown := [name for name in given if name not in usual]:
        raise UsageError(f"the config has {unknown[0]!r}, which is not one of: {', '.join(usual)}")
    config = {**usual, **given}
    try:
        found.exports.check(config)
    except ValueError as error:
        raise UsageError(f"no {found.declaration.contract} can be made of this config: {error}") from error
    return config


def read(file: Path | None, settings: Iterable[str]) -> dict[str, Any]:
    """What a JSON file says, and settings `name=value` beside it. UsageError for what is neither."""
    found: dict[str, Any] = {}
    if file is not None:
        try:
            found = json.loads(read_text(file), object_pairs_hook=partial(_once_each, file))
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file} is not JSON, or too deep: {error}") from error
        if not isinstance(found, dict):
            raise UsageError(f'{file} holds {type(found).__name__}, due is an object of names, as {{"width": 64}}')
    return found | dict(map(_setting, settings))


def _once_each(file: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are said once each: JSON's parser would take the last of several."""
    names = [name for name, _ in pairs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{file} says {twice[0]!r} {names.count(twice[0])} times; once is due")
    return dict(pairs)


def _setting(text: str) -> tuple[str, Any]:
    """`width=64`, `score=dot`, `window=null`: the value is JSON, or else the word itself."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise UsageError(f"--set {text!r}: name=value is due, as in --set width=64")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value
