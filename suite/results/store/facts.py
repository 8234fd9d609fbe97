"""What runs noted ↔ JSON: runs that noted the same share it, in a file with a line for each small piece."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from attnsuite.model import Facts
from attnsuite.results.store.files import Amiss, Damaged, digest, parsed, raised
from attnsuite.results.store.typed import object_of, typed

FACTS = "facts.json"


def facts_row(facts: Facts) -> dict[str, Any]:
    """The facts as a JSON object, without what is empty."""
    row = {name: value for name, value in _plain(facts).items() if value}
    if facts.contracts:
        row["contracts"] = {name: _without_empty_why(of) for name, of in row["contracts"].items()}
    if facts.examples:
        row["examples"] = [{name: value for name, value in _plain(of).items() if value} for of in facts.examples]
    return row


def _plain(value: Any) -> Any:
    """The value with an object in place of each struct, and no field left out."""
    if isinstance(value, Struct):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _without_empty_why(contract: Mapping[str, Any]) -> dict[str, Any]:
    """A contract's facts without the reasons of cases where there are none: runs of earlier versions noted none."""
    return {name: value for name, value in contract.items() if value or name != "why"}


def facts(noted: Mapping[str, Any]) -> Facts:
    """The facts that a JSON object holds. Raises ValueError where it is of another form."""
    try:
        own = {**noted, "examples": [{**each, "statuses": {}} for each in noted.get("examples", ())]}
        return typed(Facts, own)
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the facts are not of the form that this attnsuite writes: {error}") from None


def shared(of: Facts) -> tuple[str, dict[str, Any]]:
    """What another run may note as well, with its digest; what a run alone spent its time on is not among it."""
    row = facts_row(replace(of, profile="", seconds={}))
    return _digest(row), row


def written(noted: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of the file that holds these facts by their digests."""
    return "\n".join(_lines(dict(sorted(noted.items())), "")) + "\n" if noted else ""


def read(path: Path, data: bytes, amiss: Amiss = raised) -> dict[str, dict[str, Any]]:
    """The facts in the data of a file by their digests. Those that were altered are amiss, and left out."""
    try:
        noted = object_of("facts", parsed(data) if data else {})
    except ValueError:
        amiss(Damaged(path, "this is not what attnsuite wrote"))
        return {}
    for name in [name for name, row in noted.items() if _digest(row) != name]:
        del noted[name]
        amiss(Damaged(path, f"the facts {name:.40} are not those that were written"))
    return noted


def _digest(row: Mapping[str, Any]) -> str:
    return digest(json.dumps(row, sort_keys=True))


def _lines(value: Any, indent: str) -> Iterator[str]:
    """JSON with a line for each object or list that holds no other."""
    if isinstance(value, Mapping):
        opening, closing = "{}"
        inner = [(f"{json.dumps(key, ensure_ascii=False)}: ", each) for key, each in value.items()]
    else:
        opening, closing = "[]"
        inner = [("", each) for each in value] if isinstance(value, (list, tuple)) else []
    if not any(each and isinstance(each, (Mapping, list, tuple)) for _, each in inner):
        yield json.dumps(value, ensure_ascii=False)
        return
    yield opening
    for place, (name, each) in enumerate(inner, 1):
        first, *others = _lines(each, indent + " ")
        lines = [f"{indent} {name}{first}", *others]
        yield from lines[:-1]
        yield lines[-1] + ("," if place < len(inner) else "")
    yield indent + closing
