"""How precisely PyTorch multiplies float32: with all its bits while it is judged, and as it was before afterwards.

A GPU may round the factors of a product to TF32, which has 10 bits for a number's fraction where float32 has 23;
cuDNN's convolutions do so unless they are told not to. A CPU may round them to bfloat16. PyTorch has two interfaces to
these settings, an older one and one by library and operation, and the older one raises when it is asked once the newer
one has been used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import torch

Setting = tuple[str, str]
"""A library and an operation."""
EXACT = "ieee"
"""PyTorch's word for products of all bits."""
UNSET = "none"
"""What holds where nothing is set is what is set of all operations, or else `EXACT`."""
ALL: tuple[Setting, ...] = (("generic", "all"), ("cuda", "all"), ("mkldnn", "all"))
"""What operations inherit."""
EACH: tuple[Setting, ...] = tuple((library, of) for library in ("cuda", "mkldnn") for of in ("matmul", "conv", "rnn"))
"""PyTorch's settings of single operations."""

_ask: Callable[[str, str], str] = torch._C._get_fp32_precision_getter
# Of the library, not `torch.backends.mkldnn.fp32_precision`, which sets the generic one.
_set: Callable[[str, str, str], str] = torch._C._set_fp32_precision_setter


class Precision(NamedTuple):
    """All settings. Of the older interface's, None is one that it does not tell."""

    products: str | None
    cudnn: bool | None
    settings: tuple[tuple[Setting, str], ...]


def precision() -> Precision:
    """How float32 is multiplied now."""
    products, cudnn = None, None
    with suppress(RuntimeError):
        products = torch.get_float32_matmul_precision()
    with suppress(RuntimeError):
        cudnn = torch.backends.cudnn.allow_tf32
    return Precision(products, cudnn, tuple((each, _ask(*each)) for each in (*ALL, *EACH)))


def restore(before: Precision) -> None:
    """Make all settings what they were. Of the older interface, what it did not tell gets PyTorch's default."""
    torch.set_float32_matmul_precision(before.products or "highest")
    torch.backends.cudnn.allow_tf32 = before.cudnn is not False
    for setting, value in before.settings:
        if _ask(*setting) != value:
            _set(*setting, value)


@contextmanager
def exact() -> Iterator[None]:
    """Multiply float32 with all its bits in the block. What the block itself sets holds until its end."""
    before = precision()
    _make_exact()
    try:
        yield
    finally:
        if precision() != before:
            restore(before)


def _make_exact() -> None:
    """By the older interface where there is one, so that a submission may still ask either."""
    for setting in (*ALL, *EACH):
        _set(*setting, UNSET)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
