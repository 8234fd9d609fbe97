"""The state of a CUDA device after an error: a lost context, or memory that other processes hold."""

from __future__ import annotations

import torch


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


def with_memory(error: str, device: str) -> str:
    """An error; if the device's memory is exhausted, followed by its use, in brackets.

    A library that reserves three quarters of it at start, or another user, may hold it.
    """
    if "out of memory" not in error or not _in_use(device):
        return error
    try:
        free, total = (size / 2.0**30 for size in torch.cuda.mem_get_info(device))
        reserved = torch.cuda.memory_reserved(device) / 2.0**30
    except RuntimeError:
        return error
    return f"{error} ({free:.1f} of {total:.1f} GiB were free; tensors of this process held {reserved:.1f})"


def _in_use(device: str) -> bool:
    return torch.device(device).type == "cuda" and torch.cuda.is_initialized()
