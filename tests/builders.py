"""Records and cases as tests need them: each states only what is unusual about it."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from attnsuite.contracts import contract
from attnsuite.model import (
    ContractFacts,
    Exploit,
    ExploitAudit,
    ExploitTrial,
    Facts,
    Machine,
    Measurement,
    Outcome,
    Run,
    Status,
)
from attnsuite.results import MachineRecord

MACHINE = Machine("amd-epyc-2-cores", "AMD EPYC", 2, 2, 8 * 2**30, "Linux 6.1", ("NVIDIA H200",))
BASELINES = {
    "attention": ContractFacts(baseline="matmul"),
    "vision_transformer": ContractFacts("eager"),
}
"""The facts of contracts in a run, as far as times need them."""
RUN = Run(
    *("r1", "2026-01-02T03:04:05+00:00", MACHINE, {"python": "3.12.1", "torch": "2.13.0"}, "abc123", {}, "s"),
    finished="2026-01-02T04:00:00+00:00",
    facts=Facts(BASELINES),
)
NASTY = [
    "a|b",
    "back\\|slash\\",
    "line\nbreak\r\n\ttab",
    "`code` ``more``",
    "<script>alert(1)</script></summary></details>",
    "<!-- hidden -->",
    "[link](javascript:alert(1)) ![image](http://x/y.png)",
    "**bold** _em_ __init__ ~~gone~~ snake_case_name",
    "&lt; &amp; &#60;",
    "# heading",
    "| --- | --- |",
    "$x^2$ \\(a\\)",
    "\x1b[31mred\x1b[0m \x07 \u202egnirts\u202c \x00",
    "lone \udc80 surrogate",
    "`",
    "`a",
    "``",
    "- item",
    "=1+1",
    "",
]
"""Texts with which a submission could break a page, a spreadsheet or a terminal."""


def case_named(of: str, name: str) -> Any:
    """A case of a contract."""
    return next(case for case in contract(of).cases() if case.name == name)


def run(identity: str, day: str, facts: Facts = RUN.facts, **others: Any) -> Run:
    """A run of one day, with its own version of torch and its own commit."""
    of_day = {"started": f"{day}T03:00:00+00:00", "finished": f"{day}T04:00:00+00:00", "commit": f"commit-{identity}"}
    return replace(RUN, id=identity, versions={"torch": f"2.{day[-1]}.0"}, facts=facts, **{**of_day, **others})


def outcome(case: str = "small/plain", status: str = "passed", name: str = "attention/loops", **others: Any) -> Outcome:
    """An outcome, in float32 on the CPU."""
    asked = {"dtype": "float32", "device": "cpu", **others}
    return Outcome(name, name.partition("/")[0], case, status=Status(status), **asked)


def samples(seconds: float, count: int = 24) -> tuple[float, ...]:
    """Samples with a spread of 1 %, the same for all, so that ratios within rounds are exact."""
    return tuple(seconds * (1 + 0.01 * ((7 * number) % 5 - 2) / 2) for number in range(count))


def measured(
    name: str = "matmul", workload: str = "vit/b16", seconds: float | Iterable[float] = 0.1, **others: Any
) -> Measurement:
    """A row with times, in float32 on one thread of the CPU; a name without a contract is of attention."""
    name = name if "/" in name else f"attention/{name}"
    fields = {
        "dtype": "float32",
        "device": "cpu",
        "threads": 1,
        "direction": "forward",
        "cache": "hot",
        "status": Status.MEASURED,
        "seconds": samples(seconds) if isinstance(seconds, float) else tuple(seconds),
        "calls": 3,
        "first_call": 0.5,
        "warm_up": 0.25,
        "memory": {"output": 2.0**19, "resident": 3.0 * 2**20, "retained": 2.0**20, "constant": 2.0**16},
        "work": {"attended": 4e9, "convention": 8e9, "bytes": 1e6},
        "ceilings": {"flops": 8e10, "bytes": 1e10},
        "error_ratio": 0.125,
        "kernel": "aten::bmm 90%",
        **others,
    }
    return Measurement(name, name.partition("/")[0], workload, **fields)


def without_time(name: str, status: str, detail: str = "", workload: str = "vit/b16", **others: Any) -> Measurement:
    """A row without a time, with its reason."""
    bare = {"seconds": (), "calls": 0, "memory": {}, "work": {}, "ceilings": {}, "error_ratio": None, "kernel": ""}
    return measured(name, workload, **{"status": Status(status), "detail": detail, **bare, **others})


def recorded(of_runs: Mapping[str, Iterable[Outcome | Measurement]], runs: Iterable[Run] = (RUN,)) -> MachineRecord:
    """The contents of results/ of one machine: rows by the id of their run."""
    pairs = [(identity, row) for identity, rows in of_runs.items() for row in rows]
    return MachineRecord(
        MACHINE.name,
        {each.id: each for each in runs},
        tuple((identity, row) for identity, row in pairs if isinstance(row, Outcome)),
        tuple(sorted(
            ((identity, row) for identity, row in pairs if isinstance(row, Measurement)), key=lambda pair: pair[1].key
        )),
    )  # fmt: skip


HONEST = Exploit("honest", "control", "PyTorch's own attention.", "passes", "measured")
HALVED = Exploit("clock|halved", "the clock", "Halves the clock.", "passes", "caught")


def an_audit(held: bool = True) -> ExploitAudit:
    """One with an honest control, and a cheat that got its verdict or did not."""
    return ExploitAudit(
        [
            ExploitTrial(HONEST, "check", "passes all 3", True),
            ExploitTrial(HONEST, "bench", "measured", True),
            ExploitTrial(HALVED, "check", "passes all 3", True),
            ExploitTrial(HALVED, "bench", "refused: it claims 1 s" if held else "measured \x1b[2J<b>", held),
        ],
        seconds=12.0,
    )
