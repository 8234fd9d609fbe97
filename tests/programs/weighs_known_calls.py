"""Says what the memory meters make of calls whose memory is known, as JSON."""

import json
import mmap
import sys
import tempfile

import torch

from attnsuite.benchmark.measure import memory
from attnsuite.worker.allocator import return_freed_memory

MiB = 2**20
kept = []
return_freed_memory()  # as a process that is weighed does


def scratch(size):
    return lambda: torch.empty(size, dtype=torch.uint8).fill_(1)


def in_turn(size):
    def call():
        for _ in range(4):
            torch.empty(size, dtype=torch.uint8).fill_(1)

    return call


def keeps(size):
    def call():
        if not kept:
            kept.append(torch.empty(size, dtype=torch.uint8).fill_(1))
        torch.empty(8 * MiB, dtype=torch.uint8).fill_(1)

    return call


file = tempfile.TemporaryFile(dir=".")  # noqa: SIM115  it is open until the end
file.truncate(32 * MiB)


def maps():
    if not any(isinstance(each, mmap.mmap) for each in kept):
        kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        kept[-1][:]
    scratch(8 * MiB)()


def counted(kept, size=64):
    made = []

    def call():
        block = torch.empty(size * MiB, dtype=torch.uint8).fill_(1)
        made.append(torch.empty(int(kept * MiB), dtype=torch.uint8).fill_(1))
        del block

    found = memory.memory_of_call(call, "cpu", lambda: None)
    return len(made), found["resident"], found["retained"]


calls = []
scratch(MiB)()  # the code of a first call is loaded with it
json.dump(
    {
        "nothing": [memory.resident_peak(lambda: None) for _ in range(5)],
        "scratch": {size: [memory.resident_peak(scratch(size * MiB)) for _ in range(3)] for size in (4, 32, 128)},
        "many small": memory.resident_peak(
            lambda: [torch.empty(100_000, dtype=torch.uint8).fill_(1) for _ in range(320)]
        ),
        "in turn": memory.resident_peak(in_turn(32 * MiB)),
        "untouched": memory.resident_peak(lambda: torch.empty(128 * MiB, dtype=torch.uint8)),
        "calibrated": memory.calibrated(),
        "keeps": memory.memory_of_call(keeps(32 * MiB), "cpu", lambda: calls.append("warm")),
        "after": memory.memory_of_call(scratch(32 * MiB), "cpu", lambda: None),
        "warm": calls,
        "maps a file": memory.memory_of_call(maps, "cpu", lambda: None),
        "leaves nothing": counted(0),
        "leaves a block": counted(64),
        "leaves what may be nothing": counted(0.375, 8),
    },
    sys.stdout,
)
