"""What comes back from a process that runs somebody's code, which may say anything: checked field by field."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from torch import Tensor

from attnsuite.cases import Call, Reply
from attnsuite.worker.wire import Garbage

Checks = Mapping[Any, Callable[[Any], bool]]
"""Whether a value is what an annotation says, by the annotation."""
LONGEST_WORDS = 10_000
"""Characters of a text in a reply that are read: a message is shown in one line, and written with each outcome."""
MOST_NAMES = 1_000
"""Names in a list or a dictionary of a reply or a greeting at most: a call runs a few dozen operators, and the largest
model has some hundred weights. More are garbage, for one that was cut off might be the one to be seen."""


def misfit(kind: type[Any], data: Mapping[str, Any], checks: Checks) -> str | None:
    """The first field of a record of this kind whose value is not there or not as annotated; None where all are."""
    unfit = (of.name for of in fields(kind) if of.name not in data or not checks[of.type](data[of.name]))
    return next(unfit, None)


def replies_from(answer: Any, calls: Sequence[Call]) -> tuple[Reply, ...]:
    """The replies in an answer that came from another process. Raises `Garbage` for anything else."""
    if not isinstance(answer, list) or len(answer) != len(calls):
        raise Garbage(f"not {len(calls)} replies")
    return tuple(_reply(value, call) for value, call in zip(answer, calls, strict=True))


def is_names(value: Any) -> bool:
    """Whether this is a tuple of strings, as honest data has it."""
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def are_tensors(value: Any) -> bool:
    """Whether this is a dictionary of nothing but tensors."""
    return isinstance(value, dict) and all(isinstance(each, Tensor) for each in value.values())


def shortened(value: Any) -> Any:
    """The same with texts cut where no honest one is as long. Raises `Garbage` for too long a list or a dictionary."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST_WORDS else f"{value[:LONGEST_WORDS]}…"
    if isinstance(value, tuple):
        if len(value) > MOST_NAMES:
            raise Garbage(f"a list of {len(value)} names")
        return tuple(map(shortened, value))
    if isinstance(value, dict):
        if len(value) > MOST_NAMES:
            raise Garbage(f"a dictionary of {len(value)} names")
        return {shortened(name): shortened(of) for name, of in value.items()}
    return value


def _reply(value: Any, call: Call) -> Reply:
    if not isinstance(value, dict) or set(value) != {of.name for of in fields(Reply)}:
        raise Garbage("a reply that is none")
    if name := misfit(Reply, value, _REPLY):
        raise Garbage(f"a reply whose {name} is none")
    if call.output_gradient is None and any(each is not None for each in value["gradients"].values()):
        raise Garbage("gradients of a call that has none")
    if value["output"] is not None and not value["raised"] and set(value["gradients"]) != set(call.gradient_of):
        raise Garbage("gradients of other inputs than were asked for")
    return Reply(**{name: shortened(of) for name, of in value.items()})


_REPLY: Checks = {
    "Tensor | None": lambda value: value is None or isinstance(value, Tensor),
    "str": lambda value: isinstance(value, str),
    "Mapping[str, Tensor | None]": lambda value: (
        isinstance(value, dict) and are_tensors({name: each for name, each in value.items() if each is not None})
    ),
    "Mapping[str, str]": lambda value: (
        isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    ),
    "tuple[str, ...]": is_names,
    "bool": lambda value: isinstance(value, bool),
    "float": lambda value: isinstance(value, float) and math.isfinite(value) and value >= 0,
}
"""What a reply's fields are, by their annotations: a new kind of field is checked only once it stands here."""
