"""What a CUDA device says beside an error: that this process can use it no more, or that others hold its memory."""

from __future__ import annotations

import torch


def lost(device: str) -> str:
    """What the device says of work in this process that went wrong for good, in one line; empty where nothing did.

    A kernel that reads where it may not (`misaligned address`, `illegal memory access`) takes the CUDA context of its
    process with it: every later call of whatever kernel fails with the same error. Waits until the device is done, so
    that it is the last call's error and not the next one's.
    Source: https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html, of the errors that leave a process
    in an inconsistent state.
    """
    if torch.device(device).type != "cuda" or not torch.cuda.is_initialized():
        return ""
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return ""


def beside(error: str, device: str) -> str:
    """What belongs to an error that says that a device's memory is out, in brackets; empty for any other.

    Others may hold that memory: a library that takes three quarters of it when it starts, or another user.
    """
    if "out of memory" not in error or torch.device(device).type != "cuda" or not torch.cuda.is_initialized():
        return ""
    try:
        free, there = torch.cuda.mem_get_info(device)
        held = torch.cuda.memory_reserved(device)
    except RuntimeError:
        return ""
    gib = 2.0**30
    return f" ({free / gib:.1f} of {there / gib:.1f} GiB were free; tensors of this process held {held / gib:.1f})"
