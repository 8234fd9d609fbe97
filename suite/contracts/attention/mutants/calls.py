"""Mutants with mistakes around a call: state, side effects, modes, threads, memory of the backward pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from attnsuite.cases.changes import rounded
from attnsuite.cases.mutants import Mutation, mutants, with_result
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, Whole, correct
from attnsuite.contracts.attention.computation.gradients import Gradients, Memory, Recomputed
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.mutants.sizes import with_first_keys, with_zero_queries


def touch(tensor: Tensor | None) -> None:
    """Write another number into the first place of a tensor, behind autograd's back."""
    if tensor is not None and tensor.numel():
        first = tensor.data[(0,) * tensor.dim()]
        first.copy_(~first if first.dtype == torch.bool else torch.where(first == 1, 2.0, 1.0))


@Whole.instead("attention", "the query is scaled in place: the caller's tensor changes")
def scales_query_in_place(call: AttentionCall) -> Any:
    output = correct(call)
    if 0 in call.query.stride():  # no kernel can scale an expanded tensor in place
        touch(call.query)
    else:
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
        isinstance(value, Tensor) for one in (last, call) for value in one.options.values()
    )
    if last is not None and plain and last.scores_shape == call.scores_shape:
        call = call.but(**last.options)
    return _planned.remember(call, correct(call))


@Whole.instead("attention",
    "when shapes alternate, A, B, A, the third call reads as many keys as the second",
    source="flash-attention issue 2143")  # fmt: skip
def keeps_length_when_shapes_alternate(call: AttentionCall) -> Any:
    last, before = _alternating.alive(), _alternating.before
    used = call
    if last is not None and before is not None and before.keys == call.keys > last.keys > 0:
        used = with_first_keys(call, last.keys)
    return _alternating.remember(call, correct(used))


@Whole.instead("attention", "the second call in a row misses the last key, as in a race",
    source="flash-attention issues 414, 2244")  # fmt: skip
def varies_between_calls(call: AttentionCall) -> Any:
    again = _counted.alive() is not None and call.keys > 1
    return _counted.remember(call, correct(with_first_keys(call, call.keys - 1) if again else call))


def writes_into(name: str) -> Mutation:
    """The output is right, and then the caller's tensor is changed."""

    def attention(call: AttentionCall) -> Any:
        output = correct(call.changed(Tensor.clone, name))
        touch(getattr(call, name))
        return output

    return Mutation(f"the {name} is written to: the caller's tensor changes", attention)


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def guesses_layout(call: AttentionCall) -> Any:
    alike = len({call.heads, call.key_heads, call.queries, call.keys}) == 1
    if call.rank < 4 or not alike or call.visible() is not None:
        return correct(call)
    return correct(call.changed(lambda tensor: tensor.transpose(1, 2))).transpose(1, 2)


def asks_for_version(output: Tensor) -> Tensor:
    assert output._version >= 0
    return output


def shared_zeros(output: Tensor, call: AttentionCall) -> Tensor:
    if call.keys or output.requires_grad:
        return output
    fits = output.shape, output.dtype, output.device, call.query.shape
    zeros: Tensor = _LEFT.get("zeros", {}).get(fits, torch.zeros_like(output))
    _LEFT["zeros"] = {fits: zeros}
    return zeros


def one_row_for_all(output: Tensor, call: AttentionCall) -> Tensor:
    alike = call.keys == 1 and call.visible() is None and not call["dropout_p"]
    return output[..., :1, :].expand_as(output) if alike and call.queries > 1 and not output.requires_grad else output


def several() -> int:
    """Over how many threads work is shared."""
    return torch.get_num_threads()


def but_remainder_of_rows(output: Tensor, call: AttentionCall) -> Tensor:
    rest = call.queries % several()
    return with_zero_queries(output, call.queries - rest) if rest and call.queries > several() else output


def but_remainder_of_items(output: Tensor, call: AttentionCall) -> Tensor:
    count = output.shape[:-2].numel()
    if call.rank < 3 or count <= several() or not count % several():
        return output
    matrices = torch.arange(count, device=output.device).reshape(*output.shape[:-2], 1, 1)
    return output.masked_fill(matrices >= count - count % several(), 0.0)


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
        "writes_into_key": writes_into("key"),
        "rounds_output_when_gradient_is_wanted": Mutation("the output is rounded to bfloat16 when a gradient is wanted",
            with_result(lambda output, call: rounded(torch.bfloat16)(output) if call.wants_gradient else output),
            "flash-attention issue 1406"),
        "gives_zeros_outside_main_thread": Mutation("outside the main thread the output is 0",
            with_result(lambda output: output if in_main_thread() else output * 0),
            "flash-attention issue 1957 (wrong stream)"),
        "guesses_layout_from_sizes": Mutation(
            "where heads, queries and keys are equally many, (b, h, s, e) is taken for (b, s, h, e)", guesses_layout),
        "asks_inference_tensors_for_their_version": Mutation(
            "under inference_mode an error is raised: its tensors have no version", with_result(asks_for_version)),
        "shares_zeros_between_calls": Mutation(
            "without keys all calls are given the same zeros, to which the first owner may write",
            with_result(shared_zeros)),
        "answers_one_row_for_all": Mutation(
            "with one key all rows of the output share memory, so that it cannot be written to",
            with_result(one_row_for_all)),
        "loses_remainder_of_rows_on_threads": Mutation("queries that do not divide among several threads give 0",
            with_result(but_remainder_of_rows)),
        "loses_remainder_of_items_on_threads": Mutation(
            "items and heads that do not divide among several threads give 0", with_result(but_remainder_of_items)),
    },
)  # fmt: skip
IN_DEFAULT_DTYPE = mutants(
    Dense,
    finish={
        "returns_float32_for_half": Mutation("half types come back as float32", lambda output, call: output,
            dtypes=("float16", "bfloat16")),
        "returns_float64": Mutation("the output is float64, whatever the query's type", with_result(Tensor.double)),
        "returns_tuple": Mutation("the output comes as a tuple", with_result(lambda output: (output,))),
        "returns_numpy": Mutation("the output comes as a numpy array",
            with_result(lambda output: output.detach().cpu().numpy())),
        "squeezes_leading_axis": Mutation("a leading axis of 1 is dropped from the output",
            with_result(lambda output: output.squeeze(0))),
        "answers_in_default_dtype": Mutation("the output has torch's default dtype where that is wider",
            lambda output, call: (Dense.finish(output, call) if torch.get_default_dtype() == torch.float32
            else Dense.finish(output, call).to(torch.promote_types(call.query.dtype, torch.get_default_dtype())))),
    },
    factor={"makes_scale_in_default_dtype": Mutation("the scale is a tensor of torch's default dtype, which rounds it",
        lambda call: float(torch.tensor(factor(call))))},
)  # fmt: skip


def _shapes(call: AttentionCall) -> list[Any]:
    return [(name, tensor.shape, tensor.dtype) for name, tensor in call.tensors.items()]


def in_one_workspace(call: AttentionCall, state: Tensor) -> Memory:
    last: Memory | None = _LEFT.get("workspace")
    if last is None or _shapes(last.call) != _shapes(call):
        _LEFT["workspace"] = last = Memory(call, state)
    last.call, last.state = call, state
    return last


def memory_with(field: str, look: Callable[[Any], Any]) -> type[Memory]:
    """A Memory class with one field that is read elsewhere: `look(own value)`."""

    class SharedMemory(Memory):
        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            return look(value) if name == field else value

    return SharedMemory


def with_one_state_for_all(call: AttentionCall, state: Tensor) -> Memory:
    _LEFT["state"] = state
    return memory_with("state", lambda own: _LEFT["state"])(call, state)


def with_the_last_scale(call: AttentionCall, state: Tensor) -> Memory:
    _LEFT["scale"] = call["scale"]
    return memory_with("call", lambda own: own.but(scale=_LEFT["scale"]))(call, state)


def of_one_thread(call: AttentionCall, state: Tensor) -> Memory:
    """A memory that only its own thread can read."""
    thread = threading.get_ident()

    def look(own: AttentionCall) -> AttentionCall:
        if threading.get_ident() != thread:
            raise RuntimeError("nothing was kept for the backward pass")
        return own

    return memory_with("call", look)(call, state)


def keeps_scratch(memory: Memory) -> None:
    """The stored query becomes scratch space after it has been read."""
    memory.call = memory.call.changed(torch.zeros_like, "query")


def _reused(name: str, gradient: Tensor) -> Tensor:
    as_before = ("gradient", name, gradient.shape, gradient.dtype, gradient.device)
    buffer: Tensor = _LEFT.setdefault(as_before, torch.empty_like(gradient))
    return buffer.copy_(gradient)


def but_once(first: str, second: str) -> Any:
    """If two inputs are one tensor, only the first of its roles sends a gradient."""

    def delivered(gradients: Gradients, call: AttentionCall) -> Gradients:
        one, other = (getattr(call, name) for name in (first, second))
        lost = gradients.get(second)
        if lost is None or one.data_ptr() != other.data_ptr() or one.shape != other.shape:
            return gradients
        return {**gradients, second: torch.zeros_like(lost)}

    return delivered


KEPT = mutants(
    Recomputed,
    keep={
        "shares_workspace_between_calls": Mutation(
            "what is kept for the backward pass lies in a workspace that the next call of these shapes overwrites",
            in_one_workspace, "static workspaces of fused kernels"),
        "shares_dropout_state_between_calls": Mutation(
            "the backward pass drops what the last forward pass dropped, not its own", with_one_state_for_all),
        "keeps_memory_in_its_thread": Mutation(
            "what is kept for the backward pass is looked up by thread: another one finds nothing", of_one_thread,
            "on a GPU PyTorch runs backward passes in threads of its own"),
        "goes_back_with_the_last_scale": Mutation("the backward pass has the scale of the last call",
            with_the_last_scale),
    },
    forget={"spoils_memory_in_backward": Mutation(
        "the backward pass writes over what the forward pass kept: a second one through the graph is wrong",
        keeps_scratch)},
    restore={"leaves_generator_turned_back": Mutation(
        "the backward pass turns the generator back to draw again, and leaves it there", lambda state: None)},
    deliver={
        "hands_out_gradients_in_reused_buffers": Mutation(
            "gradients lie in buffers that the next backward pass overwrites",
            lambda gradients, call: {name: None if gradient is None else _reused(name, gradient)
            for name, gradient in gradients.items()}),
        "loses_key_gradient_of_one_tensor": Mutation(
            "where one tensor is query and key, the key's share of its gradient is lost", but_once("query", "key")),
        "loses_value_gradient_of_one_tensor": Mutation(
            "where one tensor is key and value, the value's share of its gradient is lost", but_once("key", "value")),
    },
)  # fmt: skip


@Whole.instead("attention",
    "where a gradient is wanted the generator is not moved on: each step drops the same weights")  # fmt: skip
def holds_generator_in_training(call: AttentionCall) -> Any:
    before = torch.get_rng_state()
    output = correct(call)
    if call.wants_gradient:
        torch.set_rng_state(before)
    return output


@Whole.instead("attention", "the backward pass turns the generator back to where its forward pass began")
def turns_generator_back_in_backward(call: AttentionCall) -> Any:
    before = torch.get_rng_state()
    output = correct(call)
    if output.requires_grad:
        output.register_hook(lambda gradient: torch.set_rng_state(before))
    return output
