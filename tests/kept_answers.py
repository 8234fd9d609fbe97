"""Keeps what deviations answer: diagnosis asks hundreds of them the same questions in many tests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from attnsuite.cases import Call, Reply, draws

MOST = 20_000
"""Answers that are kept: some hundred bytes for each of most."""
Ask = Callable[[Any, Sequence[Call]], tuple[Reply, ...]]


class KeptAnswers:
    """Asks a function of the suite's own the same question once. Where draws are shown, it asks anew.

    The same question is one of the same numbers, which lie in memory in the same way, and everything else the same.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._kept: OrderedDict[tuple[int, Any], tuple[Any, tuple[Reply, ...]]] = OrderedDict()
        self._last: tuple[Sequence[Call], Any] = ((), None)
        self._seen: WeakSet[Any] = WeakSet()
        """Who was asked before. Nothing is kept of two mistakes made together: they are made anew for each question."""

    def __call__(self, function: Any, calls: Sequence[Call]) -> tuple[Reply, ...]:
        if draws._REPLAYED or function not in self._seen:
            self._seen.add(function)
            return self._ask(function, calls)
        key = id(function), self._of(calls)
        if key in self._kept:
            self._kept.move_to_end(key)
        else:
            self._kept[key] = function, self._ask(function, calls)  # the function is kept, so that its id stays its own
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return self._kept[key][1]

    def _of(self, calls: Sequence[Call]) -> Any:
        """What tells these calls from others. That of the last is kept: all deviations are asked it one by one."""
        if self._last[0] is not calls:
            self._last = calls, told(calls, [])
        return self._last[1]


def told(each: Any, storages: list[int]) -> Any:
    """What tells a call, or a part of it, from others; of a tensor also which of the storages before it shares."""
    if isinstance(each, Tensor):
        where = each.untyped_storage().data_ptr()
        storages.append(where)
        numbers = each.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        layout = each.dtype, tuple(each.shape), each.stride(), each.storage_offset(), each.requires_grad
        return (*layout, storages.index(where), numbers)
    if is_dataclass(each):
        return tuple(told(getattr(each, field.name), storages) for field in fields(each))
    if isinstance(each, Mapping):
        return tuple((name, told(one, storages)) for name, one in each.items())
    if isinstance(each, tuple | list):
        return tuple(told(one, storages) for one in each)
    return repr(each)
