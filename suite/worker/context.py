"""Whether a process can still use its CUDA device: after some errors of a kernel it cannot, until it ends."""

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
