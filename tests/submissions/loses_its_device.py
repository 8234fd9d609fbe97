"""A kernel that reads where it may not, as PyTorch tells of it: from its first call on, the device says an error."""

import torch
from torch import Tensor

from attnsuite import implementation


def _says_an_error(device: object = None) -> None:
    raise RuntimeError("CUDA error: misaligned address\nSearch for `cudaErrorMisalignedAddress' in the manual.")


torch.cuda.is_initialized = lambda: True  # type: ignore[method-assign, assignment]
torch.cuda.synchronize = _says_an_error  # type: ignore[assignment]


@implementation
def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return value
