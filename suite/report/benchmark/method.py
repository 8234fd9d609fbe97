"""How a benchmark measures and compares, in plain words for its page."""

from __future__ import annotations

from attnsuite.model.statistics import LEVEL, MARGIN
from attnsuite.report.benchmark.views import Material
from attnsuite.report.cells import Span, code, emphasis, joined
from attnsuite.report.page import Points, note
from attnsuite.report.units import size


def method(of: Material) -> Points:
    """The method, each verdict explained once, and what the memory meter reads for a call that allocates nothing."""
    level, margin = f"{100 * LEVEL:g} %", f"±{100 * MARGIN:g} %"
    return Points((
        note(
            "Every round times each implementation once, in an order drawn anew, so that what disturbs the machine "
            f"disturbs all of them. A time is the median over the rounds; its {level} interval is in benchmark.csv, "
            "and all samples are in benchmark.seconds.gz."
        ),
        note(
            "A speed-up is the median ratio to ", _baselines(of), " in the same round. ", emphasis("faster"), " and ",
            emphasis("slower"), f": the {level} interval, corrected for all comparisons of a table, excludes no "
            f"difference, and the median is beyond {margin}. ", emphasis("same"), ": the interval lies within "
            f"{margin}. ", emphasis("unclear"), ": neither. ", emphasis("another run"), ": not timed in the same "
            "rounds, so not compared. The lowest median is bold where all are of one run.",
        ),
        note(
            "Peak memory is that of one call without its inputs, its output included: by PyTorch's allocator on CUDA, "
            "else by the resident size of the process, together with what it retained from the calls before."
            f"{_meter(of)} ", emphasis("none seen"), ": the meter says no more than for such a call.",
        ),
        note(
            "FLOPs are those of the pairs attended, of whole models those of all matrix products. The roofline is what "
            "the machine reached in the same run, in a matrix product and in a copy; a share above 100 % is possible "
            "where numbers stay in a cache, which the copy leaves."
        ),
        note(
            "Nothing is timed that fails its contract there: it is ", emphasis("refused"), ". The error is the largest "
            "of sampled rows of one timed round, held against the float64 oracle, in units of what conformance allows."
        ),
    ))  # fmt: skip


def _baselines(of: Material) -> tuple[Span, ...]:
    """The baselines of the contracts that were timed."""
    names = dict.fromkeys(table.baseline for table in sorted(of.tables, key=lambda table: table.setting.contract))
    return joined(map(code, filter(None, names)), " and ") or (Span("a baseline"),)


def _meter(of: Material) -> str:
    constants = [c for each in of.recorded.measurements if (c := each.memory.get("constant")) is not None]
    if not constants:
        return ""
    return f" What the meter says of a call that allocates nothing, up to {size(max(constants))}, is taken off."
