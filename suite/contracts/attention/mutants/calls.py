"""Mutants with mistakes around a call: state, side effects, modes, threads, memory of the backward pass."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from attnsuite.cases.changes import rounded
from attnsuite.cases.mutants import Mutation, mutants, with_result
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, Whole, correct
from attnsuite.contracts.attention.computation.gradients import Backward, Gradients, Saved
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.mutants.sizes import with_first_keys, with_zero_queries


def touch(tensor: Tensor | None) -> None:
    """Write another number into the first place of a tensor, behind autograd's back."""
    if tensor is not None and tensor.numel():
        first = tensor.data[(0,) * tensor.dim()]
        first.copy_(~first if first.dtype == torch.bool else torch.where(first == 1, 2.0, 1.0))


def scaled_in_place(output: Tensor, call: AttentionCall) -> Tensor:
    if 0 not in call.query.stride():  # no kernel can scale an expanded tensor in place
        call.query.data.mul_(0.5)
    return output


@Whole.instead("attention", "with a single key the value itself is returned, not a copy")
def returns_value_itself_for_one_key(call: AttentionCall) -> Any:
    plain = call.keys == 1 and call["attn_mask"] is None and not call["dropout_p"] and not call.grouped
    return call.value.expand(call.output_shape) if plain else correct(call)


_LEFT: dict[Any, Any] = {}
"""State that one call leaves to the next, by a word of the mutant."""


@Whole.instead("attention", "the output lies in a buffer that the next call overwrites")
def returns_reused_buffer(call: AttentionCall) -> Any:
    output = correct(call)
    if output.requires_grad:
        return output
    kind = "buffer", output.dtype, output.device
    if kind not in _LEFT or _LEFT[kind].numel() < output.numel():
        _LEFT[kind] = output.new_empty(max(output.numel(), 4096))
    return _LEFT[kind][: output.numel()].view(output.shape).copy_(output)


class _Last(threading.local):
    """The previous call, while its output's memory lives: stale state that cannot outlast one test."""

    call: AttentionCall | None = None
    before: AttentionCall | None = None
    memory: StorageWeakRef | None = None

    def alive(self) -> AttentionCall | None:
        if self.memory is None or self.memory.expired():
            self.call = self.before = self.memory = None
        return self.call

    def remember(self, call: AttentionCall, output: Tensor) -> Tensor:
        self.before, self.call = self.alive(), call
        self.memory = StorageWeakRef(output.untyped_storage())
        return output


def _pointers(call: AttentionCall) -> list[tuple[int, ...]]:
    return [(tensor.data_ptr(), *tensor.shape) for tensor in (call.query, call.key, call.value)]


_planned, _alternating, _counted = _Last(), _Last(), _Last()


@Whole.instead("attention",
    "the last output is replayed when the pointers are the same, whatever they point to",
    source="flashinfer starter-kit 21")  # fmt: skip
def replays_output_by_pointer(call: AttentionCall) -> Any:
    if "replay" not in _LEFT or _pointers(_LEFT["replay"][0]) != _pointers(call):
        _LEFT["replay"] = call, correct(call)  # the call's tensors stay, so no other tensor can get their pointers
    return _LEFT["replay"][1]


@Whole.instead("attention", "a call with the same shapes as the one before reuses its options",
    source="flash-attention issue 2143")  # fmt: skip
def keeps_flags_for_same_shapes(call: AttentionCall) -> Any:
    last = _planned.alive()
    plain = last is not None and not any(
        isinstance(value, Tensor) for made in (last, call) for value in made.options.values()
    )
    if last is not None and plain and last.scores_shape == call.scores_shape:
        call = call.but(**last.options)
    return _planned.remember(call, correct(call))


@Whole.instead("attention", "when shapes alternate, A, B, A, the third call reads as many keys as the second",
    source="flash-attention issue 2143")  # fmt: skip
def keeps_length_when_shapes_alternate(call: AttentionCall) -> Any:
    last, before = _alternating.alive(), _alternating.before
    kept = last is not None and before is not None and before.keys == call.keys > last.keys > 0
    return _alternating.remember(call, correct(with_first_keys(call, last.keys) if last and kept else call))


@Whole.instead("attention", "the second call in a row misses the last key, as in a race",
    source="flash-attention issues 414, 2244")  # fmt: skip
def varies_between_calls(call: AttentionCall) -> Any:
    again = _counted.alive() is not None and call.keys > 1
    return _counted.remember(call, correct(with_first_keys(call, call.keys - 1) if again else call))


def writes_into(name: str, source: str = "") -> Mutation:
    """The output is right, and then the caller's tensor is changed."""

    def attention(call: AttentionCall) -> Any:
        output = correct(call.changed(Tensor.clone))
        touch(call.tensors.get(name))
        return output

    return Mutation(f"{name} is written to: the caller's tensor changes", attention, source)


def guesses_layout(call: AttentionCall) -> Any:
    alike = len({call.heads, call.key_heads, call.queries, call.keys}) == 1
    if call.rank < 4 or not alike or call.visible() is not None:
        return correct(call)
    return correct(call.changed(lambda tensor: tensor.transpose(1, 2))).transpose(1, 2)


def asks_for_version(output: Tensor) -> Tensor:
    assert output._version >= 0
    return output


def but_remainder_of_rows(output: Tensor, call: AttentionCall) -> Tensor:
    threads = torch.get_num_threads()
    rest = call.queries % threads
    return with_zero_queries(output, call.queries - rest) if rest and call.queries > threads else output


WORK = 1e-3
"""Seconds of a kernel's work, during which other threads run: longer than they take to wake up."""


@Whole.instead("attention", "the call is stored in one place for all threads: concurrent calls get each other's output")
def shares_scratch_between_threads(call: AttentionCall) -> Any:
    _LEFT["scratch"] = call
    if threading.active_count() > 1:
        time.sleep(WORK)
    return correct(_LEFT["scratch"])


AROUND = mutants(
    Whole,
    attention={
        "scales_query_in_place": Mutation("the query is scaled in place: the caller's tensor changes",
            with_result(scaled_in_place)),
        "writes_into_query": writes_into("query"),
        "writes_into_key": writes_into("key"),
        "writes_into_mask": writes_into("attn_mask", "documents: doc-004 E23"),
        "rounds_output_when_gradient_is_wanted": Mutation("the output is rounded to bfloat16 when a gradient is wanted",
            with_result(lambda output, call: rounded(torch.bfloat16)(output) if call.wants_gradient else output),
            "flash-attention issue 1406"),
        "gives_zeros_outside_main_thread": Mutation("outside the main thread the output is 0",
            with_result(lambda output: output * (threading.current_thread() is threading.main_thread())),
            "flash-attention issue 1957 (wrong stream)"),
        "guesses_layout_from_sizes": Mutation(
            "where heads, queries and keys are equally many, (b, h, s, e) is taken for (b, s, h, e)", guesses_layout),
        "asks_inference_tensors_for_their_version": Mutation(
            "under inference_mode an error is raised: its tensors have no version", with_result(asks_for_version)),
        "loses_remainder_of_rows_on_threads": Mutation("queries that do not divide among several threads give 0",
            with_result(but_remainder_of_rows)),
    },
)  # fmt: skip
IN_DEFAULT_DTYPE = mutants(
    Dense,
    finish={
        "returns_float32_for_half": Mutation("half types come back as float32", lambda output, call: output,
            dtypes=("float16", "bfloat16")),
        "returns_float64": Mutation("the output is float64, whatever the query's type", with_result(Tensor.double)),
        "returns_numpy": Mutation("the output comes as a numpy array",
            with_result(lambda output: output.detach().cpu().numpy())),
    },
    factor={"makes_scale_in_default_dtype": Mutation("the scale is a tensor of torch's default dtype, which rounds it",
        lambda call: float(torch.tensor(factor(call))))},
)  # fmt: skip


def in_one_workspace(saved: Saved) -> Saved:
    shapes = [(tensor.shape, tensor.dtype) for tensor in saved.call.tensors.values()]
    last: Saved = _LEFT.setdefault(("workspace", *shapes), saved)
    vars(last).update(vars(saved))
    return last


def of_one_thread(saved: Saved) -> Saved:
    """A state that only its own thread can read."""
    thread = threading.get_ident()

    class OfOneThread(Saved):
        def __getattribute__(self, name: str) -> Any:
            if name == "call" and threading.get_ident() != thread:
                raise RuntimeError("nothing was kept for the backward pass")
            return super().__getattribute__(name)

    return OfOneThread(**vars(saved))


def _reused(name: str, gradient: Tensor) -> Tensor:
    as_before = ("gradient", name, gradient.shape, gradient.dtype, gradient.device)
    buffer: Tensor = _LEFT.setdefault(as_before, torch.empty_like(gradient))
    return buffer.copy_(gradient)


def but_once(first: str, second: str) -> Any:
    """If two inputs are one tensor, only the first of its roles sends a gradient."""

    def delivered(gradients: Gradients, saved: Saved) -> Gradients:
        one, other = (getattr(saved.call, name) for name in (first, second))
        lost = gradients.get(second)
        if lost is None or one.data_ptr() != other.data_ptr() or one.shape != other.shape:
            return gradients
        return {**gradients, second: torch.zeros_like(lost)}

    return delivered


KEPT = mutants(
    Backward,
    save={
        "shares_workspace_between_calls": Mutation(
            "what is kept for the backward pass lies in a workspace that the next call of these shapes overwrites",
            in_one_workspace, "static workspaces of fused kernels"),
        "keeps_memory_in_its_thread": Mutation(
            "what is kept for the backward pass is looked up by thread: another one finds nothing", of_one_thread,
            "on a GPU PyTorch runs backward passes in threads of its own"),
    },
    forget={"spoils_memory_in_backward": Mutation(
        "the backward pass writes over what the forward pass kept: a second one through the graph is wrong",
        lambda saved: saved.__dict__.update(query=torch.zeros_like(saved.query)))},
    deliver={
        "hands_out_gradients_in_reused_buffers": Mutation(
            "gradients lie in buffers that the next backward pass overwrites",
            lambda gradients, saved: {name: None if gradient is None else _reused(name, gradient)
            for name, gradient in gradients.items()}),
        "loses_key_gradient_of_one_tensor": Mutation(
            "where one tensor is query and key, the key's share of its gradient is lost", but_once("query", "key")),
        "loses_value_gradient_of_one_tensor": Mutation(
            "where one tensor is key and value, the value's share of its gradient is lost", but_once("key", "value")),
    },
)  # fmt: skip


@Whole.instead("attention", "the backward pass turns the generator back to draw again, and leaves it there")
def leaves_generator_turned_back(call: AttentionCall) -> Any:
    before = torch.get_rng_state()
    output = correct(call)
    if output.requires_grad:
        output.register_hook(lambda gradient: torch.set_rng_state(before))
    return output
