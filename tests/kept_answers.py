"""A cache of mutants' replies: diagnosis calls hundreds of mutants with the same inputs in many tests."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any
from weakref import WeakSet

import pytest
import torch
from torch import Tensor

from attnsuite.cases import Call, Reply, draws
from attnsuite.conformance import diagnosis
from attnsuite.worker.calling import run_calls

MOST = 20_000
"""Cached replies; most take some hundred bytes."""
Ask = Callable[[Any, Sequence[Call]], tuple[Reply, ...]]


class KeptAnswers:
    """Calls a mutant once with the same inputs, unless draws are replayed.

    Inputs are the same if their numbers, their layout in memory and all options are equal.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._kept: OrderedDict[tuple[int, Any], tuple[Any, tuple[Reply, ...]]] = OrderedDict()
        self._last: tuple[Sequence[Call], Any] = ((), None)
        self._seen: WeakSet[Any] = WeakSet()
        """Functions that were called before. Pairs of mistakes are made anew for each call, and are not cached."""

    def __call__(self, function: Any, calls: Sequence[Call]) -> tuple[Reply, ...]:
        if draws._REPLAYED or function not in self._seen:
            self._seen.add(function)
            return self._ask(function, calls)
        key = id(function), self._of(calls)
        if key in self._kept:
            self._kept.move_to_end(key)
        else:
            self._kept[key] = (function, self._ask(function, calls))  # keeps the id unique
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return self._kept[key][1]

    def _of(self, calls: Sequence[Call]) -> Any:
        """The key of these calls; the last key is cached, because all mutants get the same calls in turn."""
        if self._last[0] is not calls:
            self._last = calls, told(calls, [])
        return self._last[1]


def told(each: Any, storages: list[int]) -> Any:
    """The key of a call or a part of it; of a tensor also the earlier storage that it shares."""
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


@pytest.fixture(scope="session", autouse=True)
def kept_answers() -> Iterator[None]:
    """In the folders whose conftest.py imports this, diagnosis runs each mutant on the same calls once."""
    with pytest.MonkeyPatch.context() as patch:
        answers = KeptAnswers(run_calls)
        patch.setattr(diagnosis, "tries", lambda calls: partial(answers, calls=calls))
        yield
