"""Precision of float32 products: exact while they are judged, and as it was before afterwards.

A GPU may round the factors of a product to TF32, which has 10 bits for a number's fraction where float32 has 23;
cuDNN's convolutions do so by default. A CPU may round them to bfloat16. PyTorch has two interfaces to these settings,
an older one and one by library and operation; reading the older one raises once the newer one has been used.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import torch

Setting = tuple[str, str]
"""A library and an operation."""
EXACT = "ieee"
"""PyTorch's word for products of all bits."""
UNSET = "none"
"""An unset operation inherits the setting of all operations, or else is `EXACT`."""
SETTINGS: tuple[Setting, ...] = (
    *(("generic", "all"), ("cuda", "all"), ("mkldnn", "all")),
    *((library, operation) for library in ("cuda", "mkldnn") for operation in ("matmul", "conv", "rnn")),
)
"""What operations inherit, and then PyTorch's settings of single operations."""

_get: Callable[[str, str], str] = torch._C._get_fp32_precision_getter
# Of the library, not `torch.backends.mkldnn.fp32_precision`, which sets the generic one.
_set: Callable[[str, str, str], str] = torch._C._set_fp32_precision_setter


class Precision(NamedTuple):
    """All settings; None for one of the older interface that cannot be read."""

    products: str | None
    cudnn: bool | None
    settings: tuple[tuple[Setting, str], ...]


def precision() -> Precision:
    """The current settings."""
    products, cudnn = None, None
    with suppress(RuntimeError):
        products = torch.get_float32_matmul_precision()
    with suppress(RuntimeError):
        cudnn = torch.backends.cudnn.allow_tf32
    return Precision(products, cudnn, tuple((setting, _get(*setting)) for setting in SETTINGS))


def restore(before: Precision) -> None:
    """Restore all settings. Those of the older interface that could not be read get PyTorch's default."""
    torch.set_float32_matmul_precision(before.products or "highest")
    torch.backends.cudnn.allow_tf32 = before.cudnn is not False
    for setting, value in before.settings:
        if _get(*setting) != value:
            _set(*setting, value)


@contextmanager
def exact() -> Iterator[None]:
    """Multiply float32 with all bits in the block. What the block itself sets holds until its end."""
    before = precision()
    for setting in SETTINGS:
        _set(*setting, UNSET)
    torch.set_float32_matmul_precision("highest")  # by the older interface, so that a submission may read either
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        if precision() != before:
            restore(before)
