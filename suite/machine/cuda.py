"""Whether PyTorch can use a CUDA device of this machine."""

from __future__ import annotations

import re
import warnings

import torch


def problem(index: int = 0) -> str:
    """Why PyTorch cannot use this CUDA device, in one line; empty if it can."""
    with warnings.catch_warnings(record=True) as warned:  # PyTorch warns of a driver that is too old for its build
        warnings.simplefilter("always")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        reasons = [str(warning.message).partition(". ")[0] for warning in warned[:1]]
        reason = f" ({' '.join(reasons[0].split())})" if reasons else ""
        return f"torch {torch.__version__} finds no CUDA device{reason}; use --device cpu"
    if index >= count:
        return f"this machine has {count}, cuda:0 to cuda:{count - 1}"
    try:
        capability, name = torch.cuda.get_device_capability(index), torch.cuda.get_device_name(index)
    except (RuntimeError, AssertionError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        return f"it does not respond: {first}; another process may hold it, or all of its memory"
    architectures = torch.cuda.get_arch_list()
    if architectures and not any(_runs(architecture, capability) for architecture in architectures):
        version = ".".join(map(str, capability))
        built = ", ".join(architectures)
        return f"{name} has compute capability {version}; torch {torch.__version__} is built for {built}"
    return ""


def _runs(architecture: str, capability: tuple[int, int]) -> bool:
    """Whether code for `sm_90`, or PTX for `compute_90`, runs on a device of this compute capability.

    Code needs the same major version, PTX any later one, and code for `sm_90a` its own version. Other names, such as
    AMD's `gfx942`, are not judged.
    """
    if (parts := re.fullmatch(r"(sm|compute)_(\d+)(\d)(a?)f?", architecture)) is None:
        return True
    version = int(parts[2]), int(parts[3])
    if parts[4]:
        return version == capability
    return version <= capability and (parts[1] == "compute" or version[0] == capability[0])
