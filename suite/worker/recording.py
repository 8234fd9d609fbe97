"""Records of a call: the operators that it runs, its calls of a backend, and the state of its CUDA device."""

import math
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.autograd.profiler import profile  # before a submission is imported, which may replace what it finds

from attnsuite.cases.backends import BackendCall
from attnsuite.model.rows import ATTENTION

QUIET = "KINETO_LOG_LEVEL"
"""The variable that silences the profiler's lines on standard error."""


@contextmanager
def recorded(wanted: bool) -> Iterator[list[str]]:
    """The names, in alphabetical order, of the operators that the block has run, if `wanted`; complete at its end.

    Operators that others called and views of inputs do not count; attention operators always do.
    """
    names: list[str] = []
    if not wanted:
        yield names
        return
    with patch.dict(os.environ, {QUIET: "99"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile() as seen:
            yield names
    names += sorted(_outermost(seen.kineto_results.events() if seen.kineto_results else ()))


def _outermost(events: Iterable[Any]) -> set[str]:
    """The operators that no other operator called, and those of attention."""
    names: set[str] = set()
    until: dict[int, int] = {}  # the end of the operator that runs in a thread
    spans = sorted((event.start_ns(), -event.duration_ns(), event.start_thread_id(), event.name()) for event in events)
    for start, minus, thread, name in spans:
        if "::" not in name:  # a mark of the profiler or of the submission
            continue
        if start >= until.get(thread, 0):
            until[thread] = start - minus
            if not _is_view(name):
                names.add(name)
        elif ATTENTION in name:
            names.add(name)
    return names


@cache
def _is_view(name: str) -> bool:
    """Whether an operator returns a view of its input."""
    schemas = torch._C._jit_get_schemas_for_operator(name)
    returned = [alias.alias_info for schema in schemas for alias in schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


class Probe:
    """An attention by its contract, with the opposite sign of the output. `lines` are the records of its calls."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(
        self,
        query: Tensor,  # … h l e
        key: Tensor,  # … h s e
        value: Tensor,  # … h s v
        **options: Any,
    ) -> Tensor:
        visible = _visible(query, key, options)
        self.lines.append(_record(query, key, value, options, visible).written())
        scale = options.get("scale") or 1 / math.sqrt(query.shape[-1] or 1)
        wide = torch.promote_types(query.dtype, torch.float32)
        scores = scale * query.to(wide) @ key.to(wide).mT
        weights = scores.masked_fill(~visible, -math.inf).softmax(-1).masked_fill(~visible.any(-1, keepdim=True), 0.0)
        dropped = torch.nn.functional.dropout(weights, options.get("dropout_p") or 0.0)
        return -(dropped @ value.to(wide)).to(query.dtype)


def _visible(query: Tensor, key: Tensor, options: dict[str, Any]) -> Tensor:
    """Which key each query may attend to, … h l s."""
    visible = torch.ones(*query.shape[:-1], key.shape[-2], dtype=torch.bool, device=query.device)
    mask = options.get("attn_mask")
    if mask is not None:
        visible = visible & (mask if mask.dtype == torch.bool else mask > -math.inf)
    return visible.tril() if options.get("is_causal") else visible


def _record(query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any], visible: Tensor) -> BackendCall:
    tensors = {"query": query, "key": key, "value": value}
    return BackendCall(
        {name: list(tensor.shape) for name, tensor in tensors.items()},
        {name: _described(tensor) for name, tensor in tensors.items()},
        {name: _described(option) for name, option in options.items()},
        "" if visible.all() else "".join(str(int(mark)) for mark in visible.flatten().tolist()),
    )


def _described(option: Any) -> Any:
    """The dtype of a tensor, a plain option itself, else the name of its type."""
    if isinstance(option, Tensor):
        return str(option.dtype).removeprefix("torch.")
    return option if isinstance(option, bool | int | float | str | None) else type(option).__name__


def lost(device: str) -> str:
    """Why this process cannot use the device any more, in one line; empty if it can.

    A kernel with an invalid access (`misaligned address`, `illegal memory access`) destroys the CUDA context of its
    process: every later kernel fails with the same error. Waits until the device is idle, so that the error belongs to
    the last call. Source: https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html, of the errors that
    leave a process in an inconsistent state.
    """
    if not _in_use(device):
        return ""
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return ""


def _in_use(device: str) -> bool:
    return torch.device(device).type == "cuda" and torch.cuda.is_initialized()
