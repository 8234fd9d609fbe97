"""Inputs that are handed over as bytes are answered as the same inputs otherwise are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import asdict
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnsuite.benchmark.measure.messages import Job
from attnsuite.benchmark.measure.received_inputs import ReceivedInputs, layout_of, tensors_in
from attnsuite.benchmark.measure.task import Task
from attnsuite.benchmark.secret_inputs import SecretInputs, secret_inputs_of
from attnsuite.cases.tensors import SECRET_NUMBERS, grown, moved, other_tokens
from attnsuite.contracts import contract
from attnsuite.contracts.attention.workloads import Workload
from attnsuite.model import PASSES, STEP
from attnsuite.registry import Loaded, find, load
from attnsuite.worker.messages import buffer

SIGNED = Path(__file__).parents[2] / "submissions" / "signed.py"
SMALL = Workload("test/small", "", 16, 16, 8, 2)
SECRET = SECRET_NUMBERS[12345]


def handed_to(function: Any, direction: str = "forward", dtype: str = "float32", warm: int = 0) -> ReceivedInputs:
    inputs = SMALL.tensors_of_round(SMALL.call(dtype, direction), SECRET)
    return ReceivedInputs(Task(function, SMALL, dtype, direction, "cpu", "hot"), layout_of(inputs), warm)


def give(handed: ReceivedInputs, inputs: Mapping[str, Tensor]) -> None:
    for place, tensor in zip(handed.input_buffers, inputs.values(), strict=True):
        place[:] = buffer(tensor.flatten())


def answer(handed: ReceivedInputs, called: bool = True) -> dict[str, Tensor]:
    data = bytearray().join(handed.reply(called))
    found = tensors_in(data, handed.layout)
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("direction", PASSES)
def test_each_input_is_answered_by_a_call_of_its_own(direction: str, dtype: str) -> None:
    handed = handed_to(sdpa, direction, dtype)
    rows = {"output": [0, 17], "query": [0, 17], "key": [31, 20], "value": [5]}
    call = SMALL.call(dtype, direction)

    for number in (SECRET, SECRET + 1):
        give(handed, SMALL.tensors_of_round(call, number))
        found = answer(handed)
        again = answer(handed, called=False)
        asked = {name: rows[name] for name in found}
        chosen = {name: tensor[rows[name]] for name, tensor in found.items()}

        assert all(torch.equal(again[name], tensor) for name, tensor in found.items())
        assert SMALL.verdict(dtype, direction, number, asked, chosen).status == "passed"
        assert SMALL.verdict(dtype, direction, number + 1, asked, chosen).status == "failed"


def test_where_a_signature_has_inputs_elsewhere_in_memory_they_come_to_lie_there() -> None:
    """FlashAttention's tensors are (b, s, h, d), and its own in memory."""
    found = load(find([f"{SIGNED}:flash"])[0])
    assert isinstance(found, Loaded)
    handed = handed_to(found.function)

    for number in (SECRET, SECRET + 1):
        inputs = SMALL.tensors_of_round(SMALL.call("float32"), number)
        give(handed, inputs)
        due = sdpa(*(inputs[name] for name in ("query", "key", "value")))

        torch.testing.assert_close(answer(handed)["output"], due.reshape(-1, 8), atol=1e-5, rtol=1e-5)


def test_a_step_is_taken_from_the_first_weights_each_time() -> None:
    block = contract("multi_head_attention")
    workload = next(each for each in block.workloads() if STEP in each.directions)
    found = load(find(["multi_head_attention/torch_nn"])[0])
    assert isinstance(found, Loaded)
    call = workload.call("float32", STEP)
    inputs = workload.tensors_of_round(call, SECRET)
    handed = ReceivedInputs(Task(found.function, workload, "float32", STEP, "cpu", "hot"), layout_of(inputs), 0)
    give(handed, inputs)

    first, second = answer(handed), answer(handed)

    assert set(first) == {"loss", *call.gradient_of}
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_it_is_warmed_by_calls_on_other_inputs() -> None:
    seen: list[Tensor] = []

    def watched(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen.append(query.clone())
        return sdpa(query, key, value)

    handed = handed_to(watched, warm=3)
    give(handed, SMALL.tensors_of_round(SMALL.call("float32"), SECRET))
    handed.warm()

    assert len(seen) == 3
    handed.reply(called=True)
    assert not torch.equal(seen[-1], seen[0])


@pytest.mark.parametrize(
    ("size", "layout"),
    [(8, [["output", "float32", [1, 1]]]), (4, [["output", "float32", [1, 1]], ["query", "float32", [1, 1]]])],
)
def test_bytes_that_are_not_those_of_the_tensors_are_none(size: int, layout: list[Any]) -> None:
    assert tensors_in(bytearray(size), layout) is None


def test_a_number_that_is_secret_tells_none_of_the_inputs_that_are_known() -> None:
    """A short call has few inputs whose numbers have only moved along: their answers could all be known."""
    numbers = torch.arange(12.0)

    found = {tuple(moved(numbers, number).tolist()) for number in range(SECRET, SECRET + 200)}

    assert len(found) == 200
    assert all(sorted(each) == numbers.tolist() for each in found)
    assert not torch.equal(moved(numbers, SECRET, 0), moved(numbers, SECRET, 1)), "nor does one tensor tell another"
    assert torch.equal(moved(numbers, SECRET), moved(numbers, SECRET))
    assert len({tuple(moved(numbers, number).tolist()) for number in range(200)}) == 12
    assert grown(numbers, 33).tolist() == (numbers * (1 + 1 / 256)).tolist()


def test_tokens_of_a_secret_number_are_drawn_anew() -> None:
    tokens = torch.zeros(4, 6, dtype=torch.int64)

    found = other_tokens(tokens, SECRET, 11)

    assert (found.shape, found.dtype, int(found.min()) >= 0, int(found.max()) < 11) == ((4, 6), torch.int64, True, True)
    assert len(set(found.flatten().tolist())) > 1
    assert len({tuple(other_tokens(tokens, SECRET + n, 11).flatten().tolist()) for n in range(50)}) == 50
    assert other_tokens(tokens, 3, 11).unique().tolist() == [3]


def test_of_a_large_tensor_a_few_numbers_stay_together_and_which_is_as_secret() -> None:
    numbers = torch.arange(2**16 + 37, dtype=torch.int32)

    first, again, other = (moved(numbers, number) for number in (SECRET, SECRET, SECRET + 1))

    assert torch.equal(first.sort().values, numbers)
    assert torch.equal(first, again)
    beside = [(found.diff() == 1).double().mean().item() for found in (first, other)]
    assert all(share == pytest.approx(15 / 16, abs=0.001) for share in beside), "sixteen by sixteen"
    begins = {int((found.diff() != 1).nonzero()[0]) for found in (moved(numbers, SECRET + n) for n in range(40))}
    ends = {int(moved(numbers, SECRET + n)[:16].min()) % 16 for n in range(40)}
    assert begins == {15}
    assert len(ends) > 8, "where the pieces begin is another secret"


def test_inputs_are_made_once_for_all_and_not_more_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("attention", "documents/one-sentence", "float32", "forward")
    shared = secret_inputs_of(job)

    assert secret_inputs_of(Job(**asdict(job))) is shared
    assert shared.inputs(SECRET) is shared.inputs(SECRET)

    secrets = SecretInputs(SMALL, "float32", "forward")
    size = sum(tensor.nbytes for tensor in secrets.inputs(SECRET).values())
    assert secrets.capacity == 2**26 // size
    monkeypatch.setattr("attnsuite.benchmark.secret_inputs.KEPT", 3 * size)
    secrets = SecretInputs(SMALL, "float32", "forward")
    before, *others = [secrets.inputs(SECRET + n) for n in range(4)]
    assert secrets.inputs(SECRET) is not before, "it was made anew"
    assert secrets.inputs(SECRET + 3) is others[-1]
    monkeypatch.setattr("attnsuite.benchmark.secret_inputs.KEPT", 1)
    assert SecretInputs(SMALL, "float32", "forward").capacity == 1
