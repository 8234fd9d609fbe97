"""Cases whose function is given an attention to call in place of its own: a probe, which records how it is called.

The probe attends to the values' negatives, so that no answer of the function's own passes for one of the probe's: due
is the answer where all values are mapped to their negatives. Each call of the probe is recorded, and a contract says
which calls are due, as `ExpectedBackendCall`.
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
"""How the names of what maps values end."""
ROLES = ("query", "key", "value")
TAKEN = ("attn_mask", "is_causal", "dropout_p")
"""The arguments that a plug may be given beside query, key and value."""


@dataclass(frozen=True)
class BackendCall:
    """One call of the probe: what it was given."""

    shapes: Mapping[str, Sequence[int]]
    """Those of query, key and value."""
    dtypes: Mapping[str, str]
    """Theirs, and the mask's where one was given."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What was given by keyword; in place of a tensor its dtype."""
    seen: str = ""
    """For each item, head, query and key in this order "1" where the query may attend to the key and "0" where not;
    empty where nothing is hidden."""

    @classmethod
    def read(cls, line: str) -> BackendCall:
        """A record as the probe wrote it. ValueError for anything else."""
        try:
            found = cls(**json.loads(line))
            assert set(found.shapes) == set(ROLES) <= set(found.dtypes)
        except (TypeError, AssertionError, AttributeError) as error:
            raise ValueError(line) from error
        return found

    def written(self) -> str:
        """The record as a line of text, in which it leaves the process of an implementation."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class ExpectedBackendCall:
    """One call of the plug that is due."""

    query: tuple[int, ...]
    """b h l p, as are key, b h s p, and value, b h s v."""
    key: tuple[int, ...]
    value: tuple[int, ...]
    dtype: str
    hides: str = ""
    """What has to be hidden, in words; empty where nothing is."""
    may_attend: Array | None = None
    """Who may attend to whom, boolean, broadcastable to b h l s; None: everyone to everything."""
    dropout_p: float = 0.0
    spare_keys: bool = False
    """Whether there may be more keys than are due, if they are hidden: a cache has room for those to come."""

    def complaint(self, given: BackendCall) -> str | None:
        """What is wrong with a call in place of this one, or None."""
        return self._shapes(given) or self._arguments(given) or self._dropout(given) or self._visibility(given)

    def _shapes(self, given: BackendCall) -> str | None:
        for role in ROLES:
            due, came = getattr(self, role), tuple(given.shapes[role])
            if came != (self._roomier(due, came) if role != "query" else due):
                return f"{role} is {_sizes(came)}, due is {_sizes(due)}: items, heads, rows, width"
            if given.dtypes[role] != self.dtype:
                return f"{role} is {given.dtypes[role]}, due is {self.dtype}"
        return None

    def _roomier(self, due: tuple[int, ...], came: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that is due, with the spare keys that came."""
        if not self.spare_keys or len(came) != 4:
            return due
        return (*due[:2], max(due[2], came[2]), due[3])

    def _arguments(self, given: BackendCall) -> str | None:
        options = given.options
        if foreign := [name for name in options if name not in TAKEN]:
            return f"{foreign[0]} is given, {options[foreign[0]]!r}, which is the plug's own to choose"
        if idle := [name for name, value in options.items() if value is None or value is False or value == 0]:
            return f"{idle[0]} is given, {options[idle[0]]!r}, where nothing needs it"
        if "attn_mask" in options and "is_causal" in options:
            return "attn_mask and is_causal are both given, which together are undefined"
        if "attn_mask" in options and options["attn_mask"] != "bool":
            return f"attn_mask is {options['attn_mask']}, due is bool"
        return None

    def _dropout(self, given: BackendCall) -> str | None:
        came = given.options.get("dropout_p", 0.0)
        if came == self.dropout_p:
            return None
        if not came:
            return f"dropout_p is not given, due is {self.dropout_p}"
        return f"dropout_p is {came}, due is {self.dropout_p or 'none'}"

    def _visibility(self, given: BackendCall) -> str | None:
        keys, due_keys = given.shapes["key"][2], self.key[2]
        shape = (*self.query[:3], keys)
        due = np.zeros(shape, bool)
        due[..., :due_keys] = True if self.may_attend is None else self.may_attend
        seen = np.array([mark == "1" for mark in given.seen], bool) if given.seen else np.ones(shape, bool)
        if not given.seen and "attn_mask" in given.options and due.all():
            return "attn_mask is given, which hides nothing"
        if seen.size == due.size and np.array_equal(seen.reshape(shape), due):
            return None
        if not given.seen:
            return f"nothing is hidden from it, due is to hide {self.hides or 'the spare keys'}"
        return f"{int(seen.sum())} of {seen.size} pairs of query and key are seen, due are {self._pairs(seen, due)}"

    def _pairs(self, seen: Array, due: Array) -> str:
        """How many pairs are due, and the first in which what is seen differs."""
        place = tuple(int(index[0]) for index in np.nonzero(seen.reshape(due.shape) != due))
        what = "hidden" if due[place] else "seen"
        return f"{int(due.sum())}; the first that is wrongly {what} is {list(place)}"


Script = Sequence[ExpectedBackendCall]
"""The calls of the plug during one call of the function, in order."""
Scripts = Callable[[Call, Call], Sequence[Script]]
"""The scripts that are right for a call, of which one is due. It is told the call that made the model, too, which has
its config and weights; where there is none that is the call itself."""


class BackendCase(ChangedCase):
    """Another case, given the probe: judged by how the probe was called, and then by the answer."""

    def __init__(self, of: Case, scripts: Scripts) -> None:
        super().__init__(of)
        self.scripts = scripts

    def calls(self, dtype: str) -> Calls:
        return tuple(replace(call, probed=True) for call in self.of.calls(dtype))

    def expected(self, calls: Calls, conventions: Conventions) -> Any:
        """What is due where all values are negatives; the weights that are read off the probe are negatives, too."""
        due = self.of.expected(_with_negatives(calls), conventions)
        if any(call.need_weights for call in calls):
            return tuple(each.negated() for each in due)
        return due

    def verdict(self, calls: Calls, replies: Replies, truth: Any) -> Verdict:
        found = self.of.verdict(_with_negatives(calls), replies, truth)
        if found.status == Status.RAISED:
            return found
        said = self.complaint(calls, replies)
        return replace(found, status=Status.WRONG, detail=said) if said else found

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, truth: Any) -> bool:
        """By how the probe was called, too."""
        if self.complaint(calls, replies) != self.complaint(calls, theirs):
            return False
        return self.of.alike(_with_negatives(calls), replies, theirs, truth)

    def complaint(self, calls: Calls, replies: Replies) -> str | None:
        """What is wrong with how the probe was called, in the first call where anything is."""
        for call, reply in zip(calls, replies, strict=True):
            scripts = self.scripts(call, call if call.model_of is None else calls[call.model_of])
            if not reply.raised and (said := _against(scripts, reply)):
                return said
        return None


def _against(scripts: Sequence[Script], reply: Reply) -> str | None:
    """What is wrong with the calls of the probe in one reply. Several scripts differ in how many calls they have."""
    counts = {len(script): script for script in scripts}
    if len(reply.attended) not in counts:
        came = f"called {len(reply.attended)} times" if reply.attended else "not called"
        return f"the attention that was plugged in is {came}, due is {' or '.join(map(str, counts))}"
    pairs = zip(counts[len(reply.attended)], reply.attended, strict=True)
    for number, (due, line) in enumerate(pairs, start=1):
        try:
            said = due.complaint(BackendCall.read(line))
        except ValueError:
            said = "what was recorded cannot be read"
        if said:
            return f"call {number} of {len(reply.attended)} of the attention that was plugged in: {said}"
    return None


def _sizes(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "a single number"


def _with_negatives(calls: Calls) -> Calls:
    """The same calls, all values mapped to their negatives."""
    return tuple(replace(call, tensors=_negated(call.tensors), weights=_negated(call.weights)) for call in calls)


def _negated(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: -tensor if name.endswith(OF_VALUES) else tensor for name, tensor in tensors.items()}
