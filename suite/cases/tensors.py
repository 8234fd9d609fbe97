"""The numbers of cases and workloads: drawn, given by a document, changed from round to round, turned into tensors."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases.call import Call

Array = np.ndarray[Any, Any]
Generator = np.random.Generator
Inputs = Mapping[str, Array]
"""Arguments by name: numbers in float64, masks as bool, tokens and lengths as int64."""
Draw = Callable[[Generator], Inputs]

PRECISE = ("float64", "float32")
"""The dtypes of cases without half types. Those hold fewer digits than documents print, and hide some mistakes by
rounding; of a model with few positions the eager one's error says little there; and exports take long."""
HALF = ("float16", "bfloat16")
FAST = ("float32", *HALF)
"""The dtypes of cases that take long in float64, whose expected results are computed in extended precision."""
ROUND_NUMBERS = range(2_000_003, 2**31)
"""The numbers of rounds whose inputs a process makes itself. They are drawn at random, so that they cannot be foreseen,
and begin above those that a task uses for itself."""
SECRET_NUMBERS = range(2**31, 2**62)
"""The numbers of inputs that are made in the suite's process and never leave it. These inputs are permuted: a short
call has so few inputs whose numbers have only moved along that all their outputs could be known."""
GROWTH, STEPS = 1 / 256, 32
"""Inputs grow by the share GROWTH from one round to the next, and begin anew after STEPS rounds. Without it a query of
twelve numbers would be the same after twelve rounds."""
SMALL, TOGETHER = 2**16, 16
"""Up to SMALL numbers of a tensor are permuted one by one; of a larger tensor groups of TOGETHER numbers are permuted.
To permute eight million one by one takes a second, many times as long as the call."""

_SEED = ContextVar("seed", default=0)


@contextmanager
def seed(number: int) -> Iterator[None]:
    """In the block, new cases get the numbers of this seed; 0 is the default. Existing cases keep their numbers."""
    before = _SEED.set(number)
    try:
        yield
    finally:
        _SEED.reset(before)


def seeded() -> int:
    """The current seed, which is part of the key of every cache of drawn numbers."""
    return _SEED.get()


def generator(name: str) -> Generator:
    """The random numbers of a case, which depend on its name and the seed alone."""
    key, salt = zlib.crc32(name.encode()), seeded()
    return np.random.Generator(np.random.Philox([key, salt] if salt else key))


def continued(state: Any) -> Generator:
    """The random numbers that follow this state of such a generator's bits."""
    bits = np.random.Philox(0)
    bits.state = state
    return np.random.Generator(bits)


def as_tensor(array: Array, dtype: str) -> Tensor:
    """Numbers in the dtype; masks, tokens and lengths as they are."""
    tensor = torch.from_numpy(np.array(array))
    return tensor.to(getattr(torch, dtype)) if tensor.dtype.is_floating_point else tensor


def as_tensors(arrays: Inputs, dtype: str) -> dict[str, Tensor]:
    """The same for arguments by name."""
    return {name: as_tensor(array, dtype) for name, array in arrays.items()}


def dtype_of(call: Call) -> str:
    """The dtype of a call: that of its numbers, or of the model's weights; float32 where all are integers."""
    tensors = (*call.tensors.values(), *call.weights.values())
    floating = (tensor.dtype for tensor in tensors if tensor.dtype.is_floating_point)
    return str(next(floating, torch.float32)).removeprefix("torch.")


def numbers(values: Any) -> Array:
    """Nested lists as float64, with "-inf" and "nan" as such."""
    return np.asarray(values, dtype=object).astype(np.float64)


def valid(lengths: Any, keys: int) -> Array:
    """Valid lengths b or b l as a boolean mask b 1 s or b l s."""
    lengths = np.asarray(lengths)
    mask: Array = np.arange(keys) < lengths.reshape(*lengths.shape, *(1,) * (3 - lengths.ndim))
    return mask


def identity_values(items: int, keys: int) -> Array:
    """Values b s s that are the identity for each item: the output over them is the weights themselves."""
    return np.stack([np.eye(keys)] * items)


def moved(tensor: Tensor, number: int, place: int = 0) -> Tensor:
    """The numbers of a tensor in the order of round `number`; `place` differs for the tensors of a call."""
    flat = tensor.flatten()
    if number in SECRET_NUMBERS:
        return _permuted(flat, np.random.default_rng((number, place))).view_as(tensor)
    return flat.roll(number).view_as(tensor)


def _permuted(flat: Tensor, random: np.random.Generator) -> Tensor:
    if len(flat) <= SMALL:
        return flat[torch.from_numpy(random.permutation(len(flat)))]
    rolled = flat.roll(int(random.integers(len(flat))))
    whole = rolled[: len(flat) - len(flat) % TOGETHER].view(-1, TOGETHER)  # what is left over stays behind
    order = torch.from_numpy(random.permutation(len(whole)))
    whole.copy_(whole.index_select(0, order))  # rows are copied whole, which `whole[order]` does number by number
    return rolled


def grown(tensor: Tensor, number: int) -> Tensor:
    """The numbers of a tensor times the factor of round `number`."""
    return tensor * (1 + number % STEPS * GROWTH)


def other_tokens(tokens: Tensor, number: int, vocabulary: int, place: int = 0) -> Tensor:
    """The tokens of round `number`, below `vocabulary`."""
    if number in SECRET_NUMBERS:
        random = np.random.default_rng((number, place))
        return torch.from_numpy(random.integers(0, vocabulary, tuple(tokens.shape))).to(tokens.dtype)
    return (tokens + number) % vocabulary
