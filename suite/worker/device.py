"""What a CUDA device says after an error: that this process can use it no more, or that others hold its memory."""

from __future__ import annotations

import torch


def lost(device: str) -> str:
    """Why this process can use the device no more, in one line; empty where it can.

    A kernel that reads where it may not (`misaligned address`, `illegal memory access`) takes the CUDA context of its
    process with it: every later call of any kernel fails with the same error. Waits until the device is done, so that
    it is the last call's error and not the next one's. Source:
    https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html, of the errors that leave a process in an
    inconsistent state.
    """
    if not _in_use(device):
        return ""
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return ""


def with_memory(error: str, device: str) -> str:
    """An error; where a device's memory is out, with the memory that is held, in brackets.

    Others may hold it: a library that takes three quarters of it when it starts, or another user.
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
