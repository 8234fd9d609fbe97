"""Builders for tests of reports: a timed run and its rows."""

from builders import BASELINES, RUN, measured, without_time
from msgspec.structs import replace

from attnsuite.model import EVERY_CASE, Facts, WorkloadFacts

LENGTHS = (1, 2, 8, 16, 32)
WORKLOADS = {
    "vit/b16": WorkloadFacts("vit", "12 heads, length 197", "a layer of ViT-B/16", 197),
    **{f"ladder/{k}k": WorkloadFacts("ladder", f"length {k * 1024}", "one head: growth", k * 1024) for k in LENGTHS},
}
TIMED = replace(RUN, facts=Facts(BASELINES, workloads={"attention": WORKLOADS}))


def about_all(name="jax_nn", status="missing", detail="No module named 'jax'", device="cpu"):
    """A row about all workloads of an implementation."""
    every = {"dtype": "*", "threads": 0, "direction": "*", "cache": "*"}
    return without_time(name, status, detail, EVERY_CASE, device=device, **every)


def ladder(name, seconds_of, bytes_of, lengths=LENGTHS, **others):
    """Rows whose seconds and bytes grow with the length as the functions say."""
    rows = []
    for k in lengths:
        memory = {"output": 0.0, "resident": float(bytes_of(k * 1024) + 2**16), "retained": 0.0, "constant": 2.0**16}
        rows.append(measured(name, f"ladder/{k}k", float(seconds_of(k * 1024)), memory=memory, **others))
    return rows
