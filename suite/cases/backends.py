"""Cases whose function gets an attention as its backend: a probe, which records how it is called.

The probe returns the negative of an attention's output, so that a function that computes its own attention is noticed:
expected is the result with all values negated. A contract says which calls of the probe it expects, as
`ExpectedBackendCall`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attnsuite.cases.call import Call, Calls, Conventions, Replies, Reply
from attnsuite.cases.case import Case, ChangedCase
from attnsuite.cases.tensors import Array
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Status

if TYPE_CHECKING:
    from torch import Tensor

OF_VALUES = ("w_value", "b_value")
"""Endings of the names of weights that map values."""
ROLES = ("query", "key", "value")
BACKEND_OPTIONS = ("attn_mask", "is_causal", "dropout_p")
"""The arguments that a backend may get besides query, key and value."""


@dataclass(frozen=True)
class BackendCall:
    """One recorded call of the probe."""

    shapes: Mapping[str, Sequence[int]]
    """The shapes of query, key and value."""
    dtypes: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments; in place of a tensor its dtype."""
    seen: str = ""
    """For each item, head, query and key in this order "1" where the query may attend to the key and "0" where not;
    empty where nothing is hidden."""

    @classmethod
    def read(cls, line: str) -> BackendCall:
        """A record as the probe wrote it. ValueError for anything else."""
        try:
            call = cls(**json.loads(line))
            assert set(call.shapes) == set(ROLES) <= set(call.dtypes)
        except (TypeError, AssertionError, AttributeError) as error:
            raise ValueError(line) from error
        return call

    def written(self) -> str:
        """The record as a line of text, in which it leaves the process of an implementation."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class ExpectedBackendCall:
    """One expected call of the backend."""

    query: tuple[int, ...]
    """b h l p, as are key, b h s p, and value, b h s v."""
    key: tuple[int, ...]
    value: tuple[int, ...]
    dtype: str
    hides: str = ""
    """What must be hidden, in words."""
    may_attend: Array | None = None
    """The visible keys, boolean, broadcastable to b h l s; None: all."""
    dropout_p: float = 0.0
    spare_keys: bool = False
    """Whether there may be further keys if they are hidden: a cache allocates keys of later steps."""

    def complaint(self, call: BackendCall) -> str | None:
        """What is wrong with a call, or None."""
        return self._shapes(call) or _options(call.options) or self._dropout(call) or self._visibility(call)

    def _shapes(self, call: BackendCall) -> str | None:
        for role in ROLES:
            expected, actual = getattr(self, role), tuple(call.shapes[role])
            if role != "query" and self.spare_keys and len(actual) == 4:
                expected = (*expected[:2], max(expected[2], actual[2]), expected[3])
            if actual != expected:
                return f"{role} is {_sizes(actual)}, expected {_sizes(expected)}: items, heads, rows, width"
            if call.dtypes[role] != self.dtype:
                return f"{role} is {call.dtypes[role]}, expected {self.dtype}"
        return None

    def _dropout(self, call: BackendCall) -> str | None:
        p = call.options.get("dropout_p", 0.0)
        if p == self.dropout_p:
            return None
        if not p:
            return f"dropout_p is not given, expected {self.dropout_p}"
        return f"dropout_p is {p}, expected {self.dropout_p or 'none'}"

    def _visibility(self, call: BackendCall) -> str | None:
        expected = np.zeros((*self.query[:3], call.shapes["key"][2]), bool)
        expected[..., : self.key[2]] = True if self.may_attend is None else self.may_attend
        seen = np.array([mark == "1" for mark in call.seen], bool) if call.seen else np.ones(expected.shape, bool)
        if not call.seen and "attn_mask" in call.options and expected.all():
            return "attn_mask is given, which hides nothing"
        if seen.size == expected.size and np.array_equal(seen.reshape(expected.shape), expected):
            return None
        if not call.seen:
            return f"nothing is hidden from it, although it should hide {self.hides or 'the spare keys'}"
        place = tuple(int(index[0]) for index in np.nonzero(seen.reshape(expected.shape) != expected))
        return (
            f"{int(seen.sum())} of {seen.size} pairs of query and key are seen, expected {int(expected.sum())}; "
            f"the first that is wrongly {'hidden' if expected[place] else 'seen'} is {list(place)}"
        )


Script = Sequence[ExpectedBackendCall]
"""The calls of the backend during one call of the function, in order."""
Scripts = Callable[[Call, Call], Sequence[Script]]
"""The scripts of a call: the backend must follow one. The second argument is the call that made its model."""


class BackendCase(ChangedCase):
    """Another case with the probe as its backend: how the probe is called is judged, and then the result."""

    def __init__(self, base: Case, scripts: Scripts) -> None:
        super().__init__(base)
        self.scripts = scripts

    def calls(self, dtype: str) -> Calls:
        return tuple(replace(call, probed=True) for call in self.base.calls(dtype))

    def expected(self, calls: Calls, conventions: Conventions) -> Any:
        """The results with all values negated; attention weights that are read off the probe are negative, too."""
        results = self.base.expected(_with_negatives(calls), conventions)
        if not any(call.need_weights for call in calls):
            return results
        return tuple(
            replace(result, attentions={name: weights.negated() for name, weights in result.attentions.items()})
            for result in results
        )

    def verdict(self, calls: Calls, replies: Replies, expected: Any) -> Verdict:
        verdict = self.base.verdict(_with_negatives(calls), replies, expected)
        if verdict.status == Status.ERROR:
            return verdict
        complaint = self.complaint(calls, replies)
        return replace(verdict, status=Status.FAILED, detail=complaint) if complaint else verdict

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: Any) -> bool:
        """The calls of the probe must be alike, too."""
        if self.complaint(calls, replies) != self.complaint(calls, theirs):
            return False
        return self.base.alike(_with_negatives(calls), replies, theirs, expected)

    def complaint(self, calls: Calls, replies: Replies) -> str | None:
        """What is wrong with the calls of the probe in the first reply where anything is."""
        for call, reply in zip(calls, replies, strict=True):
            scripts = self.scripts(call, call if call.model_of is None else calls[call.model_of])
            if not reply.error and (complaint := _unlike(scripts, reply)):
                return complaint
        return None


def _unlike(scripts: Sequence[Script], reply: Reply) -> str | None:
    """What is wrong with the calls of the probe in a reply. The scripts differ in their numbers of calls."""
    by_length = {len(script): script for script in scripts}
    if len(reply.attended) not in by_length:
        times = f"called {len(reply.attended)} times" if reply.attended else "not called"
        return f"the backend is {times}, expected {' or '.join(map(str, by_length))}"
    pairs = zip(by_length[len(reply.attended)], reply.attended, strict=True)
    for number, (expected, line) in enumerate(pairs, start=1):
        try:
            complaint = expected.complaint(BackendCall.read(line))
        except ValueError:
            complaint = "the record cannot be read"
        if complaint:
            return f"call {number} of {len(reply.attended)} of the backend: {complaint}"
    return None


def _options(options: Mapping[str, Any]) -> str | None:
    """What is wrong with the keyword arguments of a call, apart from dropout, or None."""
    if foreign := [name for name in options if name not in BACKEND_OPTIONS]:
        return f"{foreign[0]} is given, {options[foreign[0]]!r}, which the backend chooses itself"
    if idle := [name for name, value in options.items() if value is None or value is False or value == 0]:
        return f"{idle[0]} is given, {options[idle[0]]!r}, where nothing needs it"
    if "attn_mask" in options and "is_causal" in options:
        return "attn_mask and is_causal are both given, which together are undefined"
    if options.get("attn_mask", "bool") != "bool":
        return f"attn_mask is {options['attn_mask']}, expected bool"
    return None


def _sizes(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "a single number"


def _with_negatives(calls: Calls) -> Calls:
    """The same calls, with all values mapped to their negatives."""
    return tuple(replace(call, tensors=_negated(call.tensors), weights=_negated(call.weights)) for call in calls)


def _negated(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: -tensor if name.endswith(OF_VALUES) else tensor for name, tensor in tensors.items()}
