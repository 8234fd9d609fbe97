"""Mistakes with what is around a call: modes, the default dtype, threads, and owners who write to an output."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, mutants, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Dense, Whole, correct
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.mutants.sizes import with_zero_queries


def _evaluating() -> bool:
    return not torch.is_grad_enabled()


def reads_first_head(asked: Asked) -> Asked:
    if not (_evaluating() and asked.grouped):
        return asked
    first = [tensor[..., :1, :, :].expand_as(tensor) for tensor in (asked.key, asked.value)]
    return replace(asked, key=first[0], value=first[1])


def _without(option: str, default: Any) -> Any:
    """The mistake of a path for evaluation that forgets an option."""
    return with_arguments(asked=lambda asked: asked.but(**{option: default}) if _evaluating() else asked)


def asks_for_version(output: Tensor) -> Tensor:
    assert output._version >= 0
    return output


class _Zeros:
    """Zeros for all calls without keys, by shape."""

    zeros: dict[Any, Tensor] = {}  # noqa: RUF012  one for all


def shared_zeros(output: Tensor, asked: Asked) -> Tensor:
    if asked.keys or output.requires_grad:
        return output
    fits = output.shape, output.dtype, output.device, asked.query.shape
    kept = _Zeros.zeros.setdefault(fits, torch.zeros_like(output))
    _Zeros.zeros = {fits: kept}
    return kept


def one_row_for_all(output: Tensor, asked: Asked) -> Tensor:
    alike = asked.keys == 1 and asked.visible() is None and not asked["dropout_p"]
    return output[..., :1, :].expand_as(output) if alike and asked.queries > 1 and not output.requires_grad else output


def several() -> int:
    """Over how many threads work is shared."""
    return torch.get_num_threads()


def but_remainder_of_rows(output: Tensor, asked: Asked) -> Tensor:
    rest = asked.queries % several()
    return with_zero_queries(output, asked.queries - rest) if rest and asked.queries > several() else output


def but_remainder_of_items(output: Tensor, asked: Asked) -> Tensor:
    count = output.shape[:-2].numel()
    if asked.rank < 3 or count <= several() or not count % several():
        return output
    matrices = torch.arange(count, device=output.device).reshape(*output.shape[:-2], 1, 1)
    return output.masked_fill(matrices >= count - count % several(), 0.0)


WORK = 1e-3
"""Seconds that stand for a kernel's work, during which other threads are let in: longer than they take to wake up."""


class _Scratch:
    """The call that is being answered, whichever thread has made it."""

    asked: Asked | None = None


@Whole.instead("answer", "the call lies in one place for all threads: called at once, they answer each other's")
def shares_scratch_between_threads(asked: Asked) -> Any:
    _Scratch.asked = asked
    if threading.active_count() > 1:
        time.sleep(WORK)
    return correct(_Scratch.asked)


AROUND = mutants(
    Whole,
    answer={
        "reads_first_key_head_without_grad_mode": Mutation(
            "without grad mode, with grouped heads, all query heads read the first key head",
            with_arguments(asked=reads_first_head),
            "paths for evaluation",
        ),
        "ignores_causal_without_grad_mode": Mutation(
            "without grad mode is_causal is ignored", _without("is_causal", False)
        ),
        "ignores_scale_without_grad_mode": Mutation(
            "without grad mode a given scale is ignored", _without("scale", None)
        ),
        "ignores_dropout_without_grad_mode": Mutation(
            "without grad mode nothing is dropped", _without("dropout_p", 0.0)
        ),
        "asks_inference_tensors_for_their_version": Mutation(
            "under inference_mode an error is raised: its tensors have no version", with_result(asks_for_version)
        ),
        "shares_zeros_between_calls": Mutation(
            "without keys all calls are given the same zeros, to which the first owner may write",
            with_result(shared_zeros),
        ),
        "answers_one_row_for_all": Mutation(
            "with one key all rows of the output lie in one place, so that nobody can write to it",
            with_result(one_row_for_all),
        ),
        "loses_remainder_of_rows_on_threads": Mutation(
            "queries that do not divide among several threads give 0", with_result(but_remainder_of_rows)
        ),
        "loses_remainder_of_items_on_threads": Mutation(
            "items and heads that do not divide among several threads give 0", with_result(but_remainder_of_items)
        ),
    },
)
IN_DEFAULT_DTYPE = mutants(
    Dense,
    factor={
        "makes_scale_in_default_dtype": Mutation(
            "the scale is a tensor of torch's default dtype, which rounds it",
            lambda asked: float(torch.tensor(factor(asked))),
        )
    },
    finish={
        "answers_in_default_dtype": Mutation(
            "the output has torch's default dtype where that is wider",
            lambda output, asked: (
                Dense.finish(output, asked)
                if torch.get_default_dtype() == torch.float32
                else Dense.finish(output, asked).to(torch.promote_types(asked.query.dtype, torch.get_default_dtype()))
            ),
        )
    },
)
