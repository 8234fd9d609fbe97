"""Mistakes around the formula: state, side effects, what kind of thing comes back, and cheats."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from attnsuite.cases.mutants import Mutation, mutants, rounded, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Dense, Whole, correct
from attnsuite.contracts.attention.mutants.sizes import with_first_keys


def touch(tensor: Tensor | None) -> None:
    """Write another number into the first place of a tensor, behind autograd's back."""
    if tensor is not None and tensor.numel():
        first = tensor.data[(0,) * tensor.dim()]
        first.copy_(~first if first.dtype == torch.bool else torch.where(first == 1, 2.0, 1.0))


@Whole.instead("answer", "the query is scaled in place: the caller's tensor changes")
def scales_query_in_place(asked: Asked) -> Any:
    output = correct(asked)
    if 0 in asked.query.stride():  # no kernel can scale an expanded tensor in place
        touch(asked.query)
    else:
        asked.query.data.mul_(0.5)
    return output


@Whole.instead("answer", "with a single key the value itself is returned, not a copy")
def returns_value_itself_for_one_key(asked: Asked) -> Any:
    plain = asked.keys == 1 and asked["attn_mask"] is None and not asked["dropout_p"] and not asked.grouped
    return asked.value.expand(asked.output_shape) if plain else correct(asked)


@Whole.instead("answer", "the output is written into the query's storage, where the shapes allow it")
def returns_query_storage(asked: Asked) -> Any:
    output = correct(replace(asked, query=asked.query.clone()))
    if asked.query.shape != output.shape or asked.wants_gradient or not asked.query.is_contiguous():
        return output
    return asked.query.data.copy_(output)


class _Buffer:
    """One piece of memory for all outputs."""

    memory: Tensor | None = None


@Whole.instead("answer", "the output lies in a buffer that the next call overwrites")
def returns_reused_buffer(asked: Asked) -> Any:
    output = correct(asked)
    if output.requires_grad:
        return output
    fits = (
        _Buffer.memory is not None and _Buffer.memory.dtype == output.dtype and _Buffer.memory.device == output.device
    )
    if _Buffer.memory is None or not fits or _Buffer.memory.numel() < output.numel():
        _Buffer.memory = torch.empty(max(output.numel(), 4096), dtype=output.dtype, device=output.device)
    view = _Buffer.memory[: output.numel()].view(output.shape)
    return view.copy_(output)


class _Last(threading.local):
    """The call before, as long as its output's memory lives: stale state that cannot outlast one question."""

    asked: Asked | None = None
    before: Asked | None = None
    memory: StorageWeakRef | None = None

    def alive(self) -> Asked | None:
        if self.memory is None or self.memory.expired():
            self.asked = self.before = self.memory = None
        return self.asked

    def remember(self, asked: Asked, output: Tensor) -> Tensor:
        self.before, self.asked = self.alive(), asked
        self.memory = StorageWeakRef(output.untyped_storage())
        return output


def _pointers(asked: Asked) -> list[tuple[int, ...]]:
    return [(tensor.data_ptr(), *tensor.shape) for tensor in (asked.query, asked.key, asked.value)]


_planned, _alternating, _counted = _Last(), _Last(), _Last()


class _Replay:
    """The last call and its answer; the call's tensors are kept, so no other tensor can get their pointers."""

    asked: Asked | None = None
    answer: Tensor | None = None


@Whole.instead(
    "answer",
    "the last output is replayed when the pointers are the same, whatever they point to",
    source="flashinfer starter-kit 21",
)
def replays_output_by_pointer(asked: Asked) -> Any:
    if _Replay.asked is None or _Replay.answer is None or _pointers(_Replay.asked) != _pointers(asked):
        _Replay.asked, _Replay.answer = asked, correct(asked)
    return _Replay.answer


@Whole.instead(
    "answer", "a call with the same shapes as the one before reuses its options", source="flash-attention issue 2143"
)
def keeps_flags_for_same_shapes(asked: Asked) -> Any:
    last = _planned.alive()
    plain = last is not None and not any(
        isinstance(value, Tensor) for one in (last, asked) for value in one.options.values()
    )
    if last is not None and plain and last.scores_shape == asked.scores_shape:
        asked = asked.but(**last.options)
    return _planned.remember(asked, correct(asked))


@Whole.instead(
    "answer",
    "when shapes alternate, A, B, A, the third call reads as many keys as the second",
    source="flash-attention issue 2143",
)
def keeps_length_when_shapes_alternate(asked: Asked) -> Any:
    last, before = _alternating.alive(), _alternating.before
    answered = asked
    if last is not None and before is not None and before.keys == asked.keys > last.keys > 0:
        answered = with_first_keys(asked, last.keys)
    return _alternating.remember(asked, correct(answered))


@Whole.instead(
    "answer", "the second call in a row misses the last key, as in a race", source="flash-attention issues 414, 2244"
)
def varies_between_calls(asked: Asked) -> Any:
    again = _counted.alive() is not None and asked.keys > 1
    return _counted.remember(asked, correct(with_first_keys(asked, asked.keys - 1) if again else asked))


def writes_into(name: str) -> Mutation:
    """The answer is right, and then the caller's tensor is changed."""

    def answer(asked: Asked) -> Any:
        output = correct(asked.changed(Tensor.clone, name))
        touch(getattr(asked, name))
        return output

    return Mutation(f"the {name} is written to: the caller's tensor changes", answer)


def refuses_rank(rank: int, message: str) -> Mutation:
    """Tensors of this rank raise an error."""

    def refused(asked: Asked) -> Asked:
        if asked.rank == rank:
            raise RuntimeError(message)
        return asked

    return Mutation(f"rank {rank} raises an error", with_arguments(asked=refused))


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def refuses_other_threads(asked: Asked) -> Asked:
    if not in_main_thread():
        raise RuntimeError("no workspace in this thread")
    return asked


def guesses_layout(asked: Asked) -> Any:
    alike = len({asked.heads, asked.key_heads, asked.queries, asked.keys}) == 1
    if asked.rank < 4 or not alike or asked.visible() is not None:
        return correct(asked)
    return correct(asked.changed(lambda tensor: tensor.transpose(1, 2))).transpose(1, 2)


AROUND = mutants(
    Whole,
    answer={
        "writes_into_key": writes_into("key"),
        "writes_into_value": writes_into("value"),
        "ignores_masks_without_grad_mode": Mutation(
            "without grad mode the mask is ignored",
            with_arguments(asked=lambda asked: asked if torch.is_grad_enabled() else asked.unmasked),
            "pytorch issue 86120 (evaluation fast path)",
        ),
        "rounds_output_when_gradient_is_wanted": Mutation(
            "the output is rounded to bfloat16 when a gradient is wanted",
            with_result(lambda output, asked: rounded(torch.bfloat16)(output) if asked.wants_gradient else output),
            "flash-attention issue 1406",
        ),
        "raises_outside_main_thread": Mutation(
            "outside the main thread an error is raised", with_arguments(asked=refuses_other_threads)
        ),
        "gives_zeros_outside_main_thread": Mutation(
            "outside the main thread the answer is 0",
            with_result(lambda output: output if in_main_thread() else output * 0),
            "flash-attention issue 1957 (wrong stream)",
        ),
        "refuses_rank_2": refuses_rank(2, "query: expected 3 or 4 axes, got 2"),
        "refuses_rank_3": refuses_rank(3, "query: expected 4 axes, got 3"),
        "guesses_layout_from_sizes": Mutation(
            "where heads, queries and keys are equally many, (b, h, s, e) is taken for (b, s, h, e)", guesses_layout
        ),
    },
)
RETURNED = mutants(
    Dense,
    finish={
        "returns_float32_for_half": Mutation(
            "half types come back as float32", lambda output, asked: output, dtypes=("float16", "bfloat16")
        ),
        "returns_float64": Mutation("the output is float64, whatever the query's type", with_result(Tensor.double)),
        "returns_tuple": Mutation("the output comes as a tuple", with_result(lambda output: (output,))),
        "returns_nothing": Mutation("nothing is returned", with_result(lambda output: None)),
        "returns_numpy": Mutation(
            "the output comes as a numpy array", with_result(lambda output: output.detach().cpu().numpy())
        ),
        "squeezes_leading_axis": Mutation(
            "a leading axis of 1 is dropped from the output", with_result(lambda output: output.squeeze(0))
        ),
        "keeps_added_axis_in_rank_3": Mutation(
            "in rank 3 the output has rank 4",
            with_result(lambda output, asked: output.unsqueeze(0) if asked.rank == 3 else output),
        ),
    },
)
