"""Rows of every group of workloads, of which every chart can be drawn."""

import builders
from builders import BASELINES, RUN
from msgspec.structs import replace

from attnsuite.model import Facts, WorkloadFacts
from attnsuite.report.benchmark.views import material
from attnsuite.report.charts.pictures import pictures

LENGTHS = (1, 2, 4, 8)
WORKLOADS = {
    "vit/b16": WorkloadFacts("vit", "x", "y", 197),
    **{f"ladder/{k}k": WorkloadFacts("ladder", "x", "one head: z", 1024 * k) for k in LENGTHS},
    **{f"flash/{k}k-e64": WorkloadFacts("flash", "x", "y", 1024 * k) for k in LENGTHS},
    **{f"flash/{k}k-e64-causal": WorkloadFacts("flash", "x", "y", 1024 * k) for k in LENGTHS},
}
CHARTED = replace(RUN, finished="2026-01-03T04:00:00+00:00", facts=Facts(BASELINES, workloads={"attention": WORKLOADS}))
IMPLEMENTATIONS = {"matmul": 1.0, "chunked": 0.5, "flex": 0.46, "loops": 9.0}


def measured(name="matmul", workload="vit/b16", seconds=0.1, size=2.0**22, **others):
    """A row with its peak of memory, net of what the meter says of nothing."""
    given = {
        "seconds": tuple(seconds * (1 + 0.002 * (number % 5)) for number in range(16)),
        "memory": {"resident": size + 2.0**16, "retained": 0.0, "constant": 2.0**16},
        "work": {"attended": 4e9, "convention": 4e9, "bytes": 1e6},
        "error_ratio": 0.1,
        **others,
    }
    return builders.measured(name, workload, **given)


def everything(**others):
    """Rows of every group: times grow with the square of the length, memory with the length."""
    rows = []
    for workload, facts in WORKLOADS.items():
        for place, (name, factor) in enumerate(IMPLEMENTATIONS.items()):
            given = {"error_ratio": 0.02 * 1.05**place, "size": factor * 1e3 * facts.length, **others}
            rows.append(measured(name, workload, factor * 1e-9 * facts.length**2, **given))
    return rows


def recorded(*rows, run=CHARTED):
    """What results/ would hold after one run."""
    return builders.recorded({run.id: rows}, [run])


def shown(*rows, run=CHARTED):
    """The pictures of the first view, by name."""
    of = material(recorded(*rows, run=run))
    return pictures(of.views[0], of)
